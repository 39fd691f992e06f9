"""The pictures of the documentation, each written by code; ``make pictures`` renews them all."""
