"""The user's model: where it is received, and what the work may make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamlink.errors import ModelError, SpecMismatch, TornModel
from streamlink.executors.trainable import KeptArrays, Trainable
from streamlink.model.copy import copy_model
from streamlink.model.part import part_of, part_source
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.memory import ArrayModel, spec_of
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import Array, assert_same

SPEC = float_spec(3, 2)


def arrays(value: float = 1.0) -> dict[str, Array]:
    return {"t0": np.full(3, value, "f4"), "t1": np.full(2, value, "f4")}


def receive(trainable: Trainable, value: float) -> None:
    copy_model(ArrayModel(arrays(value)), trainable.place(SPEC))


def sent(trainable: Trainable) -> dict[str, Array]:
    data = np.frombuffer(content(trainable.trained()), "f4")
    return {"t0": data[:3], "t1": data[3:]}


def test_the_users_arrays_are_filled_and_read() -> None:
    mine = arrays()
    trainable = Trainable(mine)
    receive(trainable, 5)
    assert_same(mine, arrays(5))
    mine["t0"] += 2
    assert sent(trainable)["t0"].tolist() == [7, 7, 7]


def test_without_a_model_arrays_are_made_once_for_each_spec() -> None:
    trainable = Trainable()
    receive(trainable, 5)
    first = trainable.what
    receive(trainable, 6)
    assert trainable.what is first
    trainable.place(float_spec(9))
    assert spec_of(trainable.what) == float_spec(9)


def test_another_model_than_the_users_is_refused() -> None:
    with pytest.raises(
        SpecMismatch, match="the server has another model: tensor 't0' differs in shape"
    ):
        Trainable(arrays()).place(float_spec(4, 2))


def test_arrays_that_the_work_put_in_their_place_are_sent_and_filled() -> None:
    mine = arrays()
    trainable = Trainable(mine)
    receive(trainable, 5)
    mine["t1"] = replaced = mine["t1"] * 2
    assert sent(trainable)["t1"].tolist() == [10, 10]
    receive(trainable, 6)
    assert mine["t1"] is replaced
    assert replaced.tolist() == [6, 6]


def test_arrays_in_another_order_are_sent_in_the_models() -> None:
    mine = arrays()
    trainable = Trainable(mine)
    receive(trainable, 5)
    mine["t0"] = mine.pop("t0") + 1
    assert sent(trainable)["t0"].tolist() == [6, 6, 6]
    receive(trainable, 7)
    assert_same({name: mine[name] for name in ("t0", "t1")}, arrays(7))


def shared(model: dict[str, Array]) -> None:
    model["t1"] = model["t0"][:2]


def read_only(model: dict[str, Array]) -> None:
    model["t0"] = np.frombuffer(bytes(12), "f4")


def twice(model: dict[str, Array]) -> None:
    model["t0"], model["t1"] = model["t0"][::-1], model["t0"][1:]


@pytest.mark.parametrize("change", [shared, read_only, twice])
def test_memory_that_is_not_the_entrys_own_is_copied_before_it_is_filled(change: Any) -> None:
    mine = arrays()
    trainable = Trainable(mine)
    receive(trainable, 5)
    change(mine)
    expected = {name: array.copy() for name, array in mine.items()}
    assert_same(sent(trainable), expected)
    receive(trainable, 8)
    assert_same(mine, arrays(8))


def removed(model: dict[str, Any]) -> None:
    del model["t1"]


def added(model: dict[str, Any]) -> None:
    model["extra"] = np.zeros(1)


def reshaped(model: dict[str, Any]) -> None:
    model["t0"] = model["t0"].reshape(3, 1)


def widened(model: dict[str, Any]) -> None:
    model["t1"] = model["t1"].astype("f8")


def unboxed(model: dict[str, Any]) -> None:
    model["t1"] = 3.0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (removed, "the work removed tensor 't1'"),
        (added, "the work added tensor 'extra'"),
        (reshaped, r"made tensor 't0' F32 of shape \(3, 1\); it was F32 of shape \(3,\)"),
        (widened, r"made tensor 't1' F64 of shape \(2,\); it was F32 of shape \(2,\)"),
        (unboxed, "'t1' is a float, not a NumPy array"),
    ],
)
def test_another_model_is_refused_and_the_next_task_goes_well(change: Any, why: str) -> None:
    mine = arrays()
    trainable = Trainable(mine)
    receive(trainable, 5)
    change(mine)
    with pytest.raises(ModelError, match=why):
        trainable.trained()
    receive(trainable, 6)
    assert_same(mine, arrays(6))
    assert_same(sent(trainable), arrays(6))


def test_a_torn_model_is_not_given_out() -> None:
    trainable = Trainable(arrays())
    trainable.place(SPEC).write(0, memoryview(b"1234"))
    with pytest.raises(TornModel):
        trainable.trained()


def test_a_module_is_trained_in_place_and_may_move() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(3, 2)
    trainable = Trainable(module)
    source = pattern_model(trainable.place(spec_of_module(module)).spec)
    copy_model(source, trainable.place(source.spec))
    assert content(trainable.trained()) == content(source)
    module.weight = torch.nn.Parameter(torch.ones(2, 3))
    assert np.frombuffer(content(trainable.trained()), "f4")[:6].tolist() == [1.0] * 6
    module.double()
    with pytest.raises(SpecMismatch, match="made tensor 'weight' F64"):
        trainable.trained()


def spec_of_module(module: Any) -> Any:
    return spec_of({name: each.numpy() for name, each in module.state_dict().items()})


def test_tensors_in_a_dict_may_be_replaced_too() -> None:
    torch = pytest.importorskip("torch")
    mine = {name: torch.from_numpy(array) for name, array in arrays().items()}
    trainable = Trainable(mine)
    receive(trainable, 5)
    mine["t1"] = mine["t1"] * 2
    assert sent(trainable)["t1"].tolist() == [10, 10]
    mine["t1"] = mine["t0"][:2]
    with pytest.raises(ModelError, match="share part of their memory"):
        trainable.trained()


# --- the server's order ---------------------------------------------------------------

TURNED = ModelSpec(SPEC.tensors[::-1])


def turned(value: float) -> dict[str, Array]:
    """Return the server's model: the same tensors as ``arrays``, each with values of its own."""
    return {"t1": np.full(2, value + 1, "f4"), "t0": np.full(3, value, "f4")}


def bytes_of(model: dict[str, Array]) -> bytes:
    return b"".join(array.tobytes() for array in model.values())


@pytest.mark.parametrize("kind", ["arrays", "tensors"])
def test_a_dict_is_filled_and_sent_in_the_servers_order(kind: str) -> None:
    mine: dict[str, Any] = arrays()
    if kind == "tensors":
        torch = pytest.importorskip("torch")
        mine = {name: torch.from_numpy(array) for name, array in mine.items()}
    trainable = Trainable(mine)
    copy_model(ArrayModel(turned(5)), trainable.place(TURNED))
    assert {name: each.tolist() for name, each in mine.items()} == {"t0": [5] * 3, "t1": [6] * 2}
    mine["t1"] = mine["t1"] * 2
    assert trainable.trained().spec == TURNED
    assert content(trainable.trained()) == np.array([12, 12, 5, 5, 5], "f4").tobytes()
    head = part_of(TURNED, ["t0"])
    assert content(part_source(trainable.trained(), head)) == bytes_of({"t0": arrays(5)["t0"]})


def test_each_model_that_comes_may_have_an_order_of_its_own() -> None:
    mine = arrays()
    trainable = Trainable(mine)
    for _ in range(2):
        copy_model(ArrayModel(turned(5)), trainable.place(TURNED))
        assert content(trainable.trained()) == bytes_of(turned(5))
        mine["t0"] = mine["t0"][::-1]  # is copied, since it is a view
        receive(trainable, 7)
        assert_same(sent(trainable), arrays(7))
    assert list(mine) == ["t0", "t1"]


def test_work_that_failed_does_not_disturb_another_order() -> None:
    mine = arrays()
    trainable = Trainable(mine)
    receive(trainable, 5)
    removed(mine)
    copy_model(ArrayModel(turned(8)), trainable.place(TURNED))
    assert_same(mine, {name: turned(8)[name] for name in ("t0", "t1")})


def test_a_model_in_place_of_the_users_own_keeps_its_order() -> None:
    with pytest.raises(
        SpecMismatch, match="tensor 0 differs: the client has 't0', the server 't1'"
    ):
        Trainable(ArrayModel(arrays())).place(TURNED)


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        ([*TURNED.tensors, TensorSpec("extra", "F32", ())], "the client lacks tensor 'extra'"),
        (TURNED.tensors[:1], "the server lacks tensor 't0'"),
        (
            [TURNED.tensors[0], TensorSpec("t0", "F16", (3,))],
            "tensor 't0' differs in dtype: the client has F32",
        ),
    ],
)
def test_in_another_order_the_difference_is_still_told(tensors: Any, why: str) -> None:
    with pytest.raises(SpecMismatch, match=f"the server has another model: {why}"):
        Trainable(arrays()).require(ModelSpec(tuple(tensors)))


def tied_module(torch: Any) -> Any:
    """Return a module whose ``1.weight`` is its ``0.weight``, in the order 0, 1, 1.bias."""
    module = torch.nn.Sequential(torch.nn.Embedding(3, 2), torch.nn.Linear(2, 3))
    module[1].weight = module[0].weight
    return module


WEIGHT = {"0.weight": TensorSpec("0.weight", "F32", (3, 2))}
WEIGHT["1.weight"] = TensorSpec("1.weight", "F32", (3, 2))
BIAS = TensorSpec("1.bias", "F32", (3,))


@pytest.mark.parametrize("is_dict", [False, True])
@pytest.mark.parametrize("name", WEIGHT)
def test_tied_weights_travel_under_the_name_that_the_server_has(name: str, is_dict: bool) -> None:
    torch = pytest.importorskip("torch")
    module = tied_module(torch)
    trainable = Trainable(module.state_dict() if is_dict else module)
    for tensors in [(BIAS, WEIGHT[name]), (WEIGHT[name], BIAS)]:
        source = pattern_model(ModelSpec(tensors))
        copy_model(source, trainable.place(source.spec))
        assert trainable.trained().spec == source.spec
        assert content(trainable.trained()) == content(source)
    assert module[0].weight.detach().numpy().tobytes() == content(source)[:24]
    assert module[0].weight is module[1].weight


def test_a_server_that_has_a_tied_weight_twice_is_told_what_to_do() -> None:
    trainable = Trainable(tied_module(pytest.importorskip("torch")))
    both = ModelSpec((BIAS, *WEIGHT.values()))
    why = "both '0.weight' and '1.weight', which are one tied weight at the client.* keep only one"
    with pytest.raises(SpecMismatch, match=why):
        trainable.place(both)


def test_work_that_moved_a_module_and_failed_does_not_spoil_the_next_task() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 3)
    trainable = Trainable(module)
    spec = ModelSpec((TensorSpec("weight", "F32", (3, 2)), TensorSpec("bias", "F32", (3,))))
    trainable.place(spec)
    module.weight.data = module.weight.data.clone()  # as .to("cuda") does; then it failed
    copy_model(pattern_model(spec), trainable.place(spec))
    assert module.weight.detach().numpy().tobytes() == content(pattern_model(spec))[:24]


def test_weights_that_the_work_untied_are_another_model() -> None:
    torch = pytest.importorskip("torch")
    module = tied_module(torch)
    trainable = Trainable(module)
    source = pattern_model(ModelSpec((BIAS, WEIGHT["1.weight"])))
    copy_model(source, trainable.place(source.spec))
    module[0].weight = torch.nn.Parameter(torch.ones(3, 2))
    with pytest.raises(SpecMismatch, match=r"the one before it lacks tensor '0\.weight'"):
        trainable.trained()


def test_a_module_that_was_moved_or_cast_is_noticed_in_another_order_too() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 3)
    trainable = Trainable(module)
    one = ModelSpec((TensorSpec("weight", "F32", (3, 2)), TensorSpec("bias", "F32", (3,))))
    other = ModelSpec(one.tensors[::-1])
    place = trainable.place(other)
    copy_model(pattern_model(other), place)
    module.weight = torch.nn.Parameter(torch.ones(3, 2))
    with pytest.raises(ModelError, match="'weight' has other memory than"):
        place.write(0, memoryview(b"1234"))
    assert content(trainable.trained())[12:] == np.ones(6, "f4").tobytes()
    module.double()
    with pytest.raises(
        SpecMismatch, match="'weight' differs in dtype: the client has F64, the server F32"
    ):
        trainable.place(one)


def test_a_torn_module_is_not_given_out() -> None:
    torch = pytest.importorskip("torch")
    trainable = Trainable(torch.nn.Linear(2, 3, bias=False))
    place = trainable.place(ModelSpec((TensorSpec("weight", "F32", (3, 2)),)))
    place.write(0, memoryview(b"1234"))
    with pytest.raises(TornModel):
        trainable.trained()


def test_kept_arrays_are_filled_again() -> None:
    kept = KeptArrays()
    copy_model(pattern_model(SPEC), kept.begin(SPEC))
    assert content(kept.open()) == content(pattern_model(SPEC))
    assert kept.begin(SPEC) is kept.open()
    assert kept.begin(float_spec(1)).spec == float_spec(1)
