"""State that a user's callback holds in objects: variables, metrics, objects of the script.

It is put into the objects that are there when it is restored; none is made of what a file says.
"""

from __future__ import annotations

import enum
import functools
import math
import types
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import numpy as np

from matex.keras_hooks import models, optimizers, tensors
from matex.keras_hooks.callback_state import plain_decoder, plain_values, stateless
from matex.keras_hooks.callback_state.large_arrays import LargeArrays
from matex.keras_hooks.callback_state.plain_values import ABSENT, TOO_DEEP, NotPlainError

__all__ = ["OwnStateCoder", "OwnStateDecoder"]

# Attributes that every callback has, which are no state of its own.
_NO_MEMORY = {"_model", "model", "params", "validation_data"}

_MOST_BYTES = 64 << 20
_TOO_LARGE = "too large to be copied at each checkpoint"
_THERE: dict[str, None] = {"there": None}


class OwnStateCoder(plain_values.Coder):
    """Writes the attributes of callbacks, one callback after the other.

    Args:
        callbacks: all callbacks of the fit.
        known: large arrays that the script makes, which are left out.

    Attributes:
        lost: names of what begins anew after a restoration, of the last callback.
    """

    def __init__(self, callbacks: Iterable[Any], known: Iterable[LargeArrays] = ()) -> None:
        super().__init__()
        self._known_arrays = list(known)
        self._callbacks = list(callbacks)
        self._seen = {id(callback) for callback in self._callbacks}
        self._held: list[Any] = []  # so that no other object gets an id that was seen
        self._path: list[str] = []
        self.lost: list[str] = []

    def packed(self, name: str, callback: Any) -> np.ndarray:
        """The state of *callback*, as bytes.

        Args:
            name: name by which callbacks after it refer to what it holds, too.
        """
        self.lost = []
        self.begin(name)
        return plain_values.as_bytes(dict(self._attributes(callback)))

    def code(self, value: Any) -> Any:
        """The code of *value*, in parts.

        Raises:
            NotPlainError: it has none.
        """
        if any(arrays.holds(value) for arrays in self._known_arrays):
            return _THERE
        return super().code(value)

    def other(self, value: Any) -> Any:
        """The code of a *value* that is not plain."""
        if tensors.is_variable(value):
            return _THERE if id(value) in self._of_model else {"variable": self._variable(value)}
        if tensors.is_tensor(value):
            return {"tensor": self._numbers(value)}
        if (held := tensors.variables_held(value)) is not None:
            if all(id(one) in self._of_model for one in held):
                return _THERE
            return {"variables": [type(value).__qualname__, [*map(self._numbers, held)]]}
        if isinstance(value, enum.Enum):
            return {"enum": [type(value).__qualname__, value.name]}
        if id(value) in self._seen or stateless.is_no_state(value):
            return _THERE
        if stateless.is_of_script(type(value)):
            self._seen.add(id(value))
            self._held.append(value)
            return {"object": [type(value).__qualname__, list(self._attributes(value))]}
        self._lose(type(value).__name__)
        return _THERE

    def spend(self, nbytes: int) -> None:
        """Count the bytes of a value.

        Raises:
            NotPlainError: there are too many.
        """
        super().spend(nbytes)
        if self.spent > _MOST_BYTES and self.spent > _MOST_BYTES + self._allowance:
            raise NotPlainError(_TOO_LARGE)

    @functools.cached_property
    def _models(self) -> list[Any]:
        found = [getattr(callback, "_model", None) for callback in self._callbacks]
        return list({id(model): model for model in found if model is not None}.values())

    @functools.cached_property
    def _allowance(self) -> int:
        """Bytes of two copies of the weights, such as their averages."""
        weights = [weight for model in self._models for weight in model.weights]
        return 2 * sum(4 * math.prod(weight.shape) for weight in weights)

    @functools.cached_property
    def _of_model(self) -> set[int]:
        """Variables that a checkpoint holds already."""
        found: set[int] = set()
        for model in self._models:
            several = [model.variables, models.metric_variables(model)]
            several += [one.variables for one in optimizers.optimizers_of(model)]
            for variable in (one for variables in several for one in variables):
                found.add(id(variable))
                if tensors.is_keras_variable(variable):
                    found.add(id(variable.value))
        return found

    def _attributes(self, owner: Any) -> Iterator[list[Any]]:
        """Names and codes of the attributes of *owner* that have a code."""
        for name, value in list(vars(owner).items()):
            if name in _NO_MEMORY and stateless.is_callback(owner):
                continue
            self._path.append(name)
            lost, held = len(self.lost), len(self._held)
            try:
                code = self.whole(value)
            except NotPlainError as error:
                del self.lost[lost:]
                while len(self._held) > held:
                    self._seen.discard(id(self._held.pop()))
                reason = str(error)
                if reason == TOO_DEEP and len(self._path) > 1:
                    self._path.pop()
                    raise  # the whole begins anew, and is named once
                own = reason in (TOO_DEEP, _TOO_LARGE)
                self._lose(reason if own else type(value).__name__)
            else:
                if code != _THERE:
                    yield [name, code]
            self._path.pop()

    def _variable(self, value: Any) -> list[Any]:
        dtype, code = self._numbers(value)
        return [dtype, tensors.is_keras_variable(value), bool(value.trainable), code]

    def _numbers(self, value: Any) -> list[Any]:
        """The name of the type, and the code of the array."""
        found = tensors.numbers_in(value)
        if found is None:
            raise NotPlainError(type(value).__name__)
        dtype, array = found
        self.spend(array.nbytes)
        return [dtype, plain_values.Coder().code(array)]

    def _lose(self, why: str) -> None:
        self.lost.append(f"{'.'.join(self._path)} ({why})")


class OwnStateDecoder(plain_decoder.Decoder):
    """Puts the attributes of callbacks back, into the objects that are there.

    Args:
        keeping: function that tells whether a present value is left unchanged.

    Attributes:
        lost: names of the attributes, of the last callback, whose counterparts are not there.
    """

    def __init__(self, keeping: Callable[[Any], bool]) -> None:
        super().__init__()
        self._keeping = keeping
        self._missing = False
        self._path: list[str] = []
        self.lost: list[str] = []

    def restore(
        self, name: str, callback: Any, content: np.ndarray, *, but: Container[str] = ()
    ) -> None:
        """Restore the state of *callback*, written with this *name*, from its *content*.

        Args:
            but: names of attributes that are left unchanged, of values that cannot change in place.
        """
        self.lost = []
        self.begin(name)
        codes = plain_values.from_bytes(content)
        self._set_all(callback, [pair for pair in codes.items() if pair[0] not in but])

    def other(self, kind: str, content: Any, present: Any) -> Any:
        """The *present* object in the state of *content*, where it is of the same class."""
        if kind == "tensor":
            return tensors.cast(self._array(content), content[0])
        if kind == "variable":
            return self._assigned(content, present)
        if kind == "object":
            name, attributes = content
            kept = type(present)
            fits = kept.__qualname__ == name and stateless.is_of_script(kept)
            # The codes are gone through in any case: others refer to what is in them.
            lost = len(self.lost)
            self._set_all(present if fits else types.SimpleNamespace(), attributes)
            if not fits:
                del self.lost[lost:]
            return self._told(present if fits else ABSENT)
        if kind == "variables":
            return self._told(self._with_variables(content, present))
        if kind == "enum":
            name, member = content
            fits = isinstance(present, enum.Enum) and type(present).__qualname__ == name
            found = type(present).__members__.get(member, ABSENT) if fits else ABSENT
            return self._told(found)
        # Of a callback that is gone, or of a later kind of file, nothing is known.
        return self._told(present if kind == "there" else ABSENT)

    def _set_all(self, owner: Any, codes: Iterable[Any]) -> None:
        there = vars(owner)
        outside = self._missing
        for name, code in codes:
            present = there.get(name, ABSENT)
            self._path.append(name)
            self._missing, used = False, len(self._used)
            value = self.value(code, present)
            if self._missing:
                self._put_back(used)
                kind = "" if present is ABSENT else f" ({type(present).__name__})"
                self.lost.append(f"{'.'.join(self._path)}{kind}")
            elif not self._keeping(present):
                there[name] = value
            self._path.pop()
        self._missing = outside

    def _told(self, value: Any) -> Any:
        """*value*; where it is absent, the attribute that is being restored is left as it is."""
        self._missing = self._missing or value is ABSENT
        return value

    def _array(self, content: Any) -> np.ndarray:
        # A fresh decoder: those of variables are not counted among the containers.
        return np.asarray(plain_decoder.Decoder().value(content[-1]))

    def _assigned(self, content: Any, present: Any) -> Any:
        dtype, of_keras, trainable, _ = content
        array = self._array(content)
        if tensors.is_variable(present):
            if tuple(present.shape) != array.shape:
                return self._told(ABSENT)
            present.assign(tensors.cast(array, present.dtype))
            return present
        if present is not ABSENT and present is not None:
            return self._told(ABSENT)
        value = tensors.cast(array, dtype)
        return tensors.made_variable(value, of_keras=of_keras, trainable=trainable)

    def _with_variables(self, content: Any, present: Any) -> Any:
        name, codes = content
        variables = tensors.variables_held(present)
        if variables is None or type(present).__qualname__ != name:
            return ABSENT
        arrays = [self._array(code) for code in codes]
        if [tuple(one.shape) for one in variables] != [array.shape for array in arrays]:
            return ABSENT
        for variable, array in zip(variables, arrays, strict=True):
            variable.assign(tensors.cast(array, variable.dtype))
        return present
