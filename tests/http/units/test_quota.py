"""http/listener: how many requests a server may begin."""

import pytest

from syncless.http.listener import Quota


@pytest.mark.parametrize("begun", [[3], [1, 2], [2, 5], [3, 1, 1]])
def test_end_of_the_quota_is_told_once(begun):
    told = []
    quota = Quota(3, lambda: told.append(True))
    for requests in begun:
        assert not told or sum(begun) > 3
        quota.take_many(requests)
    assert told == [True]


def test_quota_is_one_request_at_least():
    with pytest.raises(ValueError, match="at least one request"):
        Quota(0, print)
