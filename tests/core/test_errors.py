"""One exit code per kind of error."""

from __future__ import annotations

import pytest

from rota.core import errors

CODES = {
    errors.RotaError: 1,
    errors.StoreError: 1,
    errors.StoreFull: 1,
    errors.Replaced: 1,
    errors.StoreAway: 1,
    errors.InDoubt: 1,
    errors.Contended: 1,
    errors.TakesLong: 1,
    errors.NotAllowed: 1,
    errors.SchemaMismatch: 1,
    errors.BadInput: 2,
    errors.BadSetting: 2,
    errors.TooLarge: 2,
    errors.Cycle: 2,
    errors.NotFound: 3,
    errors.Conflict: 4,
    errors.Stale: 5,
    errors.Refused: 6,
    errors.Denied: 6,
    errors.QueueFull: 6,
    errors.NothingReady: 6,
    errors.WaitedTooLong: 6,
    errors.UnknownWorker: 7,
}
ALL = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.RotaError)]


def test_every_error_is_listed_here() -> None:
    assert set(ALL) == set(CODES)


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_an_error_has_its_exit_code_and_says_what_it_means(error: type[errors.RotaError]) -> None:
    assert error.exit_code == CODES[error]
    assert error.__doc__


def test_each_exit_code_has_one_class_of_its_own_that_the_others_refine() -> None:
    families = {code: [error for error in ALL if error.exit_code == code] for code in range(1, 8)}
    for code, family in families.items():
        tops = [error for error in family if error.__base__ not in family]
        assert len(tops) == 1, f"exit code {code}: {tops}"
