"""Every error that Sightline raises on purpose.

SightlineError
├── ConfigurationError      wrong YAML, options or usage; nothing has run          (exit code 2)
│   ├── UnknownElement      no installed element has that name
│   ├── DeviceUnavailable   the device asked for is not there, with the reason
│   ├── StaleConfiguration  a change was made from a configuration that is not the present one
│   └── MissingExtra        an optional package is needed, with the install command
├── ModelError              a model file or its tensors are not what is needed     (exit code 2, or 1 when run)
├── KernelError             a kernel's source cannot be compiled, or its launch failed
├── CudaError                a call to a GPU failed; the GPU can still be used      (exit code 1)
│   ├── GpuOutOfMemory      it has no memory left, or a pool has none to lend
│   └── CudaFailed           it cannot be used any more in this process; with the first cause
├── StreamError             one stream's trouble; the others go on
│   ├── StreamUnreadable    it cannot be opened or holds no video: trying again at once is of no use
│   │   └── StreamRefused   its server says no: wrong credentials, or nothing there
│   └── StreamLost          it broke off: a live source is worth another attempt
│       └── StreamStalled   its connection stands, but nothing comes
├── OutputError             an output cannot be written (place, rights, space)    (exit code 1)
│   └── ReaderGone          nobody reads standard output any more                 (exit code 141)
├── DeliveryError           records did not reach their destination; they are kept and tried again
│   ├── DestinationLost     it cannot be reached, broke off or does not answer
│   │   └── DestinationRefused  it does not accept the credentials, or does not let us write there
│   ├── RecordRefused       it refuses one record: set aside after several attempts
│   └── RecordsRejected     it took a request but for some of its records, and forbids another attempt: set aside
├── OperatorError           an operator failed on a batch: element, stream, frame  (exit code 1)
├── ChangeReverted          a change of a running pipeline did not prove itself; the pipeline is as before
├── ClientError             a server could not be asked, or refuses: see `sightline.client.errors` (exit code 1 or 2)
├── SurfaceReleased         a pooled surface was used after it went back
├── EndOfLink               the link was closed by its sender and is empty
└── LinkClosed              the link was closed by its receiver: nobody listens any more

A message says what was wrong, where, what is allowed and what to do. It never holds a password: whoever
builds a message from a URL or from another library's text passes it through `sightline.redaction.redact`.
"""

from __future__ import annotations


class SightlineError(Exception):
    """The root of all errors raised on purpose."""


class ConfigurationError(SightlineError):
    """The description of a pipeline, or the way it was called, is wrong; nothing has run."""


class UnknownElement(ConfigurationError):
    """No installed package offers an element of that name."""


class DeviceUnavailable(ConfigurationError):
    """The device asked for cannot be used on this machine; the message says why."""


class StaleConfiguration(ConfigurationError):
    """A change was made from a version of the configuration, or of its file, that is not the present one; nothing has
    changed. `etag` is the tag of the present one, where it has one.
    """

    def __init__(self, message: str, *, etag: str | None = None) -> None:
        super().__init__(message)
        self.etag = etag


class MissingExtra(ConfigurationError):
    """An optional package is needed."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package!r}: pip install 'sightline[{extra}]'")


class ModelError(SightlineError):
    """A model file cannot be used: missing, damaged, unsupported, or with other tensors than needed."""


class KernelError(SightlineError):
    """A kernel for a GPU cannot be compiled, or went wrong in the build that tests run; the message says where."""


class CudaError(SightlineError):
    """A call to a GPU failed; the message says what was being done. The GPU can still be used."""


class GpuOutOfMemory(CudaError):
    """A GPU, or the bounded pool that lends its memory, has none left."""


class CudaFailed(CudaError):
    """A GPU cannot be used any more in this process, since an error that the message names as the first cause."""


class StreamError(SightlineError):
    """One stream is in trouble; the other streams are not."""


class StreamUnreadable(StreamError):
    """The input does not exist, is not video, or is refused; another attempt at once would end the same way."""


class StreamRefused(StreamUnreadable):
    """The server answered, and refuses; `credentials` says that it does not accept user and password."""

    def __init__(self, message: str, *, credentials: bool = False) -> None:
        super().__init__(message)
        self.credentials = credentials


class StreamLost(StreamError):
    """The stream broke off while it was read; a live source is worth another attempt."""


class StreamStalled(StreamLost):
    """The connection stands, but nothing came for longer than the stream may be silent."""


class OutputError(SightlineError):
    """An output cannot be opened, written or closed; `reason` says why in a few words, without the file."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class ReaderGone(OutputError):
    """Nobody reads standard output any more, as behind `| head`: no failure of ours."""


class DeliveryError(SightlineError):
    """Records could not be delivered; the first `delivered` of those passed were."""

    def __init__(self, message: str, *, delivered: int = 0) -> None:
        super().__init__(message)
        self.delivered = delivered


class DestinationLost(DeliveryError):
    """The destination cannot be reached, has broken off, or does not answer in time; `retry_after_ns` is how long it
    asks us to wait, if it does.
    """

    def __init__(self, message: str, *, delivered: int = 0, retry_after_ns: int | None = None) -> None:
        super().__init__(message, delivered=delivered)
        self.retry_after_ns = retry_after_ns


class DestinationRefused(DestinationLost):
    """The destination answers, and does not let us in or does not let us write; another attempt soon will not help."""


class RecordRefused(DeliveryError):
    """The destination refuses the record after those delivered; the others may be accepted."""


class RecordsRejected(DeliveryError):
    """The destination has taken the `among` records after those delivered, and says that it rejected `rejected` of
    them, but not which. They must not be sent again.
    """

    def __init__(self, message: str, *, among: int, rejected: int, delivered: int = 0) -> None:
        super().__init__(message, delivered=delivered)
        self.among = among
        self.rejected = rejected


class OperatorError(SightlineError):
    """An operator failed while it worked on a batch."""

    def __init__(self, message: str, *, element: str, stream: str | None = None, frame: int | None = None) -> None:
        super().__init__(message)
        self.element = element
        self.stream = stream
        self.frame = frame


class ChangeReverted(SightlineError):
    """A change of a running pipeline was applied, did not prove itself, and was taken back; the message has the first
    error. `element` and `stream` say where it was seen.
    """

    def __init__(self, message: str, *, element: str | None = None, stream: str | None = None) -> None:
        super().__init__(message)
        self.element = element
        self.stream = stream


class SurfaceReleased(SightlineError):
    """A pooled surface was used after its last holder had let it go."""


class EndOfLink(SightlineError):
    """The sender closed the link and everything in it was received."""


class LinkClosed(SightlineError):
    """The receiver closed the link; what is sent now reaches nobody."""
