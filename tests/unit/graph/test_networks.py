"""Which networks an address belongs to, however it is written, and what may be connected to."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from sightline.graph.networks import Networks, checked_network, kind_of, resolve

KINDS = {
    "public": ("8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"),
    "private": ("10.1.2.3", "172.31.0.1", "192.168.0.9", "100.64.0.1", "fd12:3456::1", "::ffff:10.0.0.7"),
    "loopback": ("127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"),
    "link-local": ("169.254.1.1", "fe80::1", "::ffff:169.254.1.1"),
    "multicast": ("224.0.0.1", "239.255.255.250", "ff02::1"),
    "the metadata service of a cloud": (
        *("169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"),
    ),
    "reserved": (
        *("0.0.0.0", "255.255.255.255", "240.0.0.1", "192.0.2.1", "::", "::127.0.0.1", "64:ff9b::7f00:1"),
        *("2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "::ffff:0:127.0.0.1"),
    ),
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in KINDS.items() for text in texts])
def test_each_address_is_of_one_kind(kind: str, text: str) -> None:
    assert kind_of(ip_address(text)) == kind


@pytest.mark.parametrize("text", [text for kind, texts in KINDS.items() if kind != "private" for text in texts])
def test_private_networks_hold_nothing_else(text: str) -> None:
    assert Networks(["private"]).refusal(ip_address(text)) == kind_of(ip_address(text))


def test_a_range_that_is_named_is_allowed_whatever_it_is() -> None:
    networks = Networks(["169.254.0.0/16", "::1/128"])
    assert [networks.refusal(ip_address(text)) for text in ("169.254.169.254", "::1", "127.0.0.1", "8.8.8.8")] == [
        *("", "", "loopback", "public"),
    ]
    assert networks.refusal(ip_address("::ffff:169.254.0.1")) == ""


def test_networks_are_written_in_one_way_and_mistakes_say_how() -> None:
    assert [checked_network(text) for text in (" Private ", "10.0.0.7", "fd00::/8")] == [
        *("private", "10.0.0.7/32", "fd00::/8"),
    ]
    with pytest.raises(ValueError, match=r"did you mean 10\.0\.0\.0/8\?"):
        checked_network("10.0.0.7/8")
    with pytest.raises(ValueError, match="write private, public, or a range"):
        checked_network("lan")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1"])
def test_a_number_is_read_as_the_system_reads_it_when_it_connects(host: str) -> None:
    assert resolve(host, 554) == [ip_address("127.0.0.1")]


def test_a_name_that_cannot_be_one_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="no name of a host"):
        resolve("a" * 64, 554)
