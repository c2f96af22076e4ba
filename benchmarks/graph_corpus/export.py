"""Write ONNX files of many architectures with random weights, for `python -m benchmarks.graph_corpus`.

    python -m benchmarks.graph_corpus.export FOLDER [--only TEXT] [--limit-mb 60]

Needs torch, torchvision, timm, transformers, segmentation-models-pytorch, onnx and onnxscript, best in an environment
of their own; nothing is downloaded. Weights are random, but no branch is idle (scales of layers that start near zero
are redrawn) and batch normalisations know the statistics of the maps that they normalise, so that nothing saturates.

The settings of the exporter go round: opset 11, 13 and 17 of the older exporter (without folding of constants for 11),
opset 18 of the newer one. Every second file has IR version 3, with all weights among the graph's inputs.
"""

from __future__ import annotations

import argparse
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn

Make = Callable[[], nn.Module]


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network to be exported: where it comes from, and the height and width of its image."""

    name: str
    family: str
    size: int
    make: Make


@dataclass(frozen=True, slots=True)
class Setting:
    """What the exporter is asked for. `newer`: the exporter of PyTorch 2.9 and later."""

    opset: int
    folded: bool = True
    newer: bool = False


SETTINGS = (Setting(13), Setting(11, folded=False), Setting(17), Setting(18, newer=True))
FALLBACKS = (Setting(17), Setting(18, newer=True))
TIMM = {
    224: """
    resnet18 resnetv2_50 seresnet50 resnext50_32x4d resnest14d regnetx_002 regnety_002 densenet121 dla34 hrnet_w18_small
    efficientnet_b0 efficientnetv2_rw_t mobilenetv2_050 mobilenetv3_small_050 mobilenetv4_conv_small
    mobilenetv4_hybrid_medium ghostnet_050 ghostnetv2_100 hardcorenas_a convnext_atto convnextv2_atto
    vit_tiny_patch16_224 swin_tiny_patch4_window7_224 coatnet_nano_rw_224 repvgg_a0 nf_resnet26 nfnet_f0 mobilevit_xxs
    mobilevitv2_050 edgenext_xx_small fastvit_t8 efficientformer_l1 efficientformerv2_s0 levit_128s poolformer_s12
    mixer_s32_224 gmlp_s16_224 pvt_v2_b0 pit_ti_224 tnt_s_patch16_224 cait_xxs24_224 xcit_nano_12_p16_224
    twins_pcpvt_small visformer_tiny cspdarknet53 cspresnext50 ese_vovnet19b_dw selecsls42 tinynet_e lcnet_050
    mnasnet_050 spnasnet_100 fbnetc_100 xception41 dpn48b skresnet18 res2net50_14w_8s hgnetv2_b0 repghostnet_050
    starnet_s1 mambaout_femto inception_next_atto davit_tiny focalnet_tiny_srf gcvit_xxtiny sequencer2d_s
    tiny_vit_5m_224 efficientvit_b0 efficientvit_m0 repvit_m0_9 rdnet_tiny mobileone_s0 shvit_s1 hiera_tiny_224
    gernet_s volo_d1_224 swiftformer_xs eva02_tiny_patch14_224
    """,
    240: "crossvit_tiny_240",
    256: "swinv2_tiny_window8_256 maxvit_nano_rw_256 botnet26t_256 halonet26t lambda_resnet26t bat_resnext26ts",
    299: "inception_v3 inception_v4",
}
SEGMENTATION = ("Unet", "UnetPlusPlus", "FPN", "PSPNet", "PAN", "Linknet", "MAnet", "DeepLabV3Plus", "UPerNet")
_BATCH = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_NORMALISING = (*_BATCH, nn.GroupNorm, nn.LayerNorm)
_REFUSALS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What the exporters raise at networks that they cannot write."""


class OneImage(nn.Module):
    """Torchvision's detectors, which take a list of images, for one image (1, 3, H, W)."""

    def __init__(self, model: nn.Module, *keys: str) -> None:
        super().__init__()
        self.model, self.keys = model, keys

    def forward(self, x: Tensor) -> list[Tensor]:
        """What they found, by the names `keys`."""
        (found,) = self.model([x[0]])
        return [found[key].float() for key in self.keys]


class Entries(nn.Module):
    """The entries `keys` of a model that answers with a mapping."""

    def __init__(self, model: nn.Module, *keys: str) -> None:
        super().__init__()
        self.model, self.keys = model, keys

    def forward(self, x: Tensor) -> list[Tensor]:
        """Their values."""
        found = self.model(x)
        return [found[key] for key in self.keys]


def architectures() -> Iterator[Architecture]:
    """All of them."""
    yield from _detectors()
    yield from _from_torchvision()
    yield from _from_transformers()
    yield from _from_segmentation()
    yield from _from_timm()


def _detectors() -> Iterator[Architecture]:
    from benchmarks.graph_corpus.detectors import detectors

    for name in detectors():
        yield Architecture(name, "detector", 160, partial(_detector, name))


def _detector(name: str) -> nn.Module:
    from benchmarks.graph_corpus.detectors import detectors

    return detectors()[name]


def _from_torchvision() -> Iterator[Architecture]:
    from torchvision import models
    from torchvision.models import detection, segmentation

    small: dict[str, Any] = {"weights": None, "weights_backbone": None, "num_classes": 20}
    sized = {"min_size": 192, "max_size": 192}
    for name, more in (
        ("retinanet_resnet50_fpn", {**sized, "detections_per_img": 50}),
        ("fcos_resnet50_fpn", {**sized, "detections_per_img": 50}),
        ("fasterrcnn_mobilenet_v3_large_320_fpn", {**sized, "rpn_post_nms_top_n_test": 100}),
        ("ssdlite320_mobilenet_v3_large", {}),
        ("ssd300_vgg16", {}),
    ):
        size = 192 if more else 320

        def detector(name: str = name, more: dict[str, Any] = more) -> nn.Module:
            return OneImage(getattr(detection, name)(**small, **more), "boxes", "scores", "labels")

        yield Architecture(name, "torchvision", size, detector)
    for name in ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50"):
        yield Architecture(name, "torchvision", 128, partial(_entries, partial(getattr(segmentation, name), **small)))
    for name in (
        *("shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "googlenet", "squeezenet1_1", "mnasnet0_5"),
        *("mobilenet_v3_small", "efficientnet_v2_s", "swin_v2_t", "maxvit_t", "vit_b_32", "convnext_tiny"),
    ):
        extra = {"aux_logits": False} if name == "googlenet" else {}
        yield Architecture(name, "torchvision", 224, partial(getattr(models, name), weights=None, **extra))


def _entries(make: Make) -> nn.Module:
    return Entries(make(), "out")


def _from_transformers() -> Iterator[Architecture]:
    import transformers as library

    thin = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}
    resnet = library.ResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
    )
    last = library.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], out_features=["stage4"]
    )
    plain: dict[str, Any] = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
    found = ("logits", "pred_boxes")
    tiny = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128}
    narrow = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}
    wanted: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
        "Detr": ("ForObjectDetection", {**thin, **plain, "num_queries": 20, "backbone_config": last}, found),
        "ConditionalDetr": ("ForObjectDetection", {**thin, **plain, "num_queries": 20, "backbone_config": last}, found),
        "DabDetr": (
            "ForObjectDetection",
            {
                **plain,
                "num_queries": 20,
                "backbone_config": last,
                "hidden_size": 64,
                "encoder_layers": 2,
                "decoder_layers": 2,
                "encoder_ffn_dim": 128,
                "decoder_ffn_dim": 128,
            },
            found,
        ),
        "DeformableDetr": (
            "ForObjectDetection",
            {**thin, **plain, "num_queries": 20, "backbone_config": resnet, "num_feature_levels": 3},
            found,
        ),
        "RTDetr": (
            "ForObjectDetection",
            {
                "d_model": 64,
                "encoder_hidden_dim": 64,
                "encoder_ffn_dim": 128,
                "decoder_ffn_dim": 128,
                "decoder_layers": 2,
                "num_queries": 20,
                "decoder_in_channels": [64] * 3,
                "encoder_in_channels": [32, 48, 64],
                "num_denoising": 0,
                "backbone_config": library.RTDetrResNetConfig(
                    embedding_size=16,
                    hidden_sizes=[16, 32, 48, 64],
                    depths=[1, 1, 1, 1],
                    layer_type="basic",
                    out_features=["stage2", "stage3", "stage4"],
                ),
            },
            found,
        ),
        "DFine": (
            "ForObjectDetection",
            {
                "d_model": 64,
                "encoder_hidden_dim": 64,
                "encoder_ffn_dim": 128,
                "decoder_ffn_dim": 128,
                "decoder_layers": 2,
                "num_queries": 20,
                "decoder_in_channels": [64] * 3,
                "num_denoising": 0,
            },
            found,
        ),
        "Yolos": ("ForObjectDetection", {**tiny, "image_size": [192, 192], "num_detection_tokens": 20}, found),
        "Segformer": (
            "ForSemanticSegmentation",
            {"hidden_sizes": [16, 32, 40, 64], "depths": [1, 1, 1, 1], "decoder_hidden_size": 64},
            ("logits",),
        ),
        "MobileViT": (
            "ForSemanticSegmentation",
            {"image_size": 192, "hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [16, 16, 24, 32, 48, 64, 128]},
            ("logits",),
        ),
        "Dinov2": ("ForImageClassification", {**tiny, "image_size": 196, "patch_size": 14}, ("logits",)),
        "Siglip": ("ForImageClassification", {"vision_config": {**tiny, "image_size": 192}}, ("logits",)),
        "DepthAnything": (
            "ForDepthEstimation",
            {
                "backbone_config": library.Dinov2Config(
                    **tiny, image_size=196, out_features=["stage1", "stage2", "stage3"], reshape_hidden_states=False
                ),
                "reassemble_hidden_size": 64,
                "neck_hidden_sizes": [16, 24, 32],
                "reassemble_factors": [4, 2, 1],
                "fusion_hidden_size": 32,
            },
            ("predicted_depth",),
        ),
        "VitPose": (
            "ForPoseEstimation",
            {
                "backbone_config": library.VitPoseBackboneConfig(
                    **{**tiny, "hidden_size": 64}, image_size=[192, 192], out_features=["stage3"]
                )
            },
            ("heatmaps",),
        ),
        "ConvNextV2": ("ForImageClassification", narrow, ("logits",)),
        "SwiftFormer": ("ForImageClassification", {}, ("logits",)),
        "PoolFormer": ("ForImageClassification", {}, ("logits",)),
    }
    for name, (ending, options, keys) in wanted.items():

        def made(name: str = name, ending: str = ending, options: Any = options, keys: Any = keys) -> nn.Module:
            # Fused attention kernels have no form in ONNX for the older exporter.
            config = getattr(library, f"{name}Config")(**options, attn_implementation="eager")
            return Entries(getattr(library, name + ending)(config), *keys)

        yield Architecture(name, "transformers", 196 if "Dinov2" in str(options) or name == "Dinov2" else 192, made)


def _from_segmentation() -> Iterator[Architecture]:
    import segmentation_models_pytorch as library

    for name in SEGMENTATION:
        make = partial(getattr(library, name), "mobilenet_v2", encoder_weights=None)
        yield Architecture(name, "segmentation", 128, make)


def _from_timm() -> Iterator[Architecture]:
    import timm

    for size, names in TIMM.items():
        for name in names.split():
            yield Architecture(name, "timm", size, partial(timm.create_model, name, pretrained=False))


def enliven(model: nn.Module, x: Tensor) -> nn.Module:
    """Return the model, ready to compute, with no idle branch and with statistics of its own maps."""
    model.eval()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, _NORMALISING) and module.weight is not None:
                module.weight.uniform_(0.6, 1.4)
                module.bias.normal_(0, 0.1)
        for name, values in model.named_parameters():
            if values.requires_grad and (values.numel() > 1 and values.std() < 1e-2) and values.abs().mean() < 1e-2:
                if name.endswith("bias") or values.ndim > 2:
                    values.normal_(0, 0.1)
                else:
                    values.uniform_(0.4, 0.8)
        normalising = [one for one in model.modules() if isinstance(one, _BATCH)]
        for module in normalising:
            module.reset_running_stats()
            module.momentum = None
            module.train(x.shape[-1] > 1)
        try:
            for _ in range(2):
                model(torch.randn_like(x) * 0.7 + torch.nn.functional.interpolate(torch.randn(1, 3, 5, 5), x.shape[2:]))
        except ValueError:  # A map of one pixel has no variance.
            for module in normalising:
                module.reset_running_stats()
        for module in normalising:
            module.eval()
            module.running_var.clamp_(min=1e-2)
    return model


def export(one: Architecture, setting: Setting, path: Path) -> None:
    """Write one architecture. Raises what the exporter raises."""
    torch.manual_seed(zlib.crc32(one.name.encode()))
    x = torch.rand(1, 3, one.size, one.size)
    model = enliven(one.make(), x)
    with torch.no_grad():
        if setting.newer:
            torch.onnx.export(model, (x,), dynamo=True, opset_version=setting.opset, verbose=False).save(str(path))
            return
        torch.onnx.export(
            model,
            (x,),
            str(path),
            dynamo=False,
            opset_version=setting.opset,
            do_constant_folding=setting.folded,
            input_names=["image"],
        )


def finish(path: Path, one: Architecture, setting: Setting, *, listed: bool) -> None:
    """Note in the file where it comes from; `listed`: make it one of IR version 3."""
    model = onnx.load(path)
    exporter = f"opset {setting.opset}" + (", newer exporter" if setting.newer else "")
    exporter += "" if setting.folded else ", not folded"
    if listed and not setting.newer:
        model.ir_version = 3
        for tensor in model.graph.initializer:
            entry = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            model.graph.input.append(entry)
        exporter += ", IR 3"
    onnx.helper.set_model_props(model, {"architecture": one.name, "family": one.family, "exporter": exporter})
    onnx.save(model, path)


def main() -> None:
    """Write what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="names that hold this text")
    parser.add_argument("--limit-mb", type=int, default=60, help="larger files are not kept")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    for number, one in enumerate(architectures()):
        path = arguments.folder / f"{one.family}-{one.name}.onnx"
        if arguments.only not in one.name or path.exists():
            continue
        started, chosen = time.monotonic(), SETTINGS[number % len(SETTINGS)]
        for setting in (chosen, *(other for other in FALLBACKS if other != chosen)):
            try:
                export(one, setting, path)
                finish(path, one, setting, listed=number % 8 < 4)
            except _REFUSALS as error:
                path.unlink(missing_ok=True)
                reason = str(error).strip().partition("\n")[0]
                print(f"{one.name}: {setting}: {type(error).__name__}: {reason}", flush=True)
                continue
            size = path.stat().st_size >> 20
            if size > arguments.limit_mb:
                path.unlink()
            kept = "" if size <= arguments.limit_mb else ", too large"
            print(f"{one.name}: {setting.opset}, {time.monotonic() - started:.1f} s, {size} MiB{kept}", flush=True)
            break


if __name__ == "__main__":
    main()
