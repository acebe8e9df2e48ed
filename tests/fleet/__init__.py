"""Tests of the fleet. A package, so that it comes before the benchmark of this name, wherever that was imported."""
