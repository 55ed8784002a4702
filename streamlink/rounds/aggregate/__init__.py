"""From updates to the new model, wherever the updates come from.

``gather`` is the loop over all updates, ``combiner`` computes one piece of the new model, ``mean``
is the arithmetic. ``update_source`` is what the loop needs of an update.
"""
