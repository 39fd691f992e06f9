"""Trainings whose ranks are killed from outside, again and again, and replaced."""
