"""Tests of the emulated long line and of the programs that use it."""
