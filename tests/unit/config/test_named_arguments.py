"""Arguments of an optimizer in a text, looked at before Keras is imported."""

from __future__ import annotations

import pytest

from matex.config.named_arguments import named_arguments, unfit_argument

ABOVE_0, SHARE, AT_LEAST_0 = (
    "a finite number above 0",
    "a number of at least 0 and below 1",
    "a finite number of at least 0",
)


def test_a_name_and_its_arguments() -> None:
    assert named_arguments("adam") == ("adam", {})
    arguments = {"learning_rate": 0.1, "nesterov": True, "x": "fast"}
    assert named_arguments("sgd:learning_rate=.1,nesterov=true,x=fast") == ("sgd", arguments)


@pytest.mark.parametrize(
    "text",
    [
        "adam:learning_rate=1e-3,beta_1=0,beta_2=0.999,epsilon=1e-7,amsgrad=true",
        "sgd:momentum=0,nesterov=false,clipnorm=0",
        "rmsprop:rho=0.9,momentum=0.5,centered=true,global_clipnorm=2",
        "adafactor:beta_2_decay=-0.8",
        "ftrl:beta=2,learning_rate_power=-0.5",
    ],
)
def test_arguments_that_fit_pass(text: str) -> None:
    assert unfit_argument(named_arguments(text)[1]) == ""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        *(
            (f"adam:learning_rate={value}", f"{ABOVE_0} as learning_rate")
            for value in ("0", "-1", "nan", "inf", "true", "abc", "")
        ),
        ("adam:beta_1=5", f"{SHARE} as beta_1"),
        ("adam:beta_2=1", f"{SHARE} as beta_2"),
        ("muon:adam_beta_1=-0.1", f"{SHARE} as adam_beta_1"),
        ("sgd:momentum=2", f"{SHARE} as momentum"),
        ("rmsprop:rho=nan", f"{SHARE} as rho"),
        ("sgd:clipnorm=-1", f"{AT_LEAST_0} as clipnorm"),
        ("sgd:clipvalue=-0.5", f"{AT_LEAST_0} as clipvalue"),
        ("sgd:global_clipnorm=inf", f"{AT_LEAST_0} as global_clipnorm"),
        ("adam:name=x", "a finite number, true or false as name"),
        ("adam:amsgrad=true,epsilon=nan", "a finite number, true or false as epsilon"),
        (
            "sgd:clipnorm=1,learning_rate=0.1,global_clipnorm=1",
            "one of clipnorm, clipvalue and global_clipnorm at most",
        ),
    ],
)
def test_the_first_that_does_not_fit_is_named(text: str, wanted: str) -> None:
    assert unfit_argument(named_arguments(text)[1]) == wanted
