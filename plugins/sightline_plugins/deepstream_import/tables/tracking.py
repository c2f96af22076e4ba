"""Tables of trackers: the section of deepstream-app, and the sections of NvMultiObjectTracker's file."""

from __future__ import annotations

from collections.abc import Mapping

from sightline_plugins.deepstream_import.settings import Table, differs, ignores, refuses, takes
from sightline_plugins.deepstream_import.tables.common import ENABLE, EVERY_GPU, HARDWARE, MEMORY

TRACKER: Table = {
    "enable": ENABLE,
    "tracker-width": ignores("frames are not resized for the tracker"),
    "tracker-height": ignores("frames are not resized for the tracker"),
    "ll-lib-file": takes("`track`"),
    "ll-config-file": takes("read as well"),
    "display-tracking-id": takes("`draw: {ids}`"),
    "tracking-id-reset-mode": differs("ids count on in each stream, and are never given again", off=("", "0")),
    "enable-past-frame": differs(
        "`track: {past_frames: true}` gives events for the frames before a track had its id", off=("0", "")
    ),
    "enable-batch-process": ignores("a tracker works stream by stream"),
    "compute-hw": HARDWARE,
    "input-tensor-meta": refuses("the tracker takes embeddings of `embed` only"),
    "tensor-meta-gie-id": refuses("the tracker takes embeddings of `embed` only"),
    "sub-batches": ignores("a tracker works stream by stream"),
    "sub-batch-err-recovery-trial-cnt": ignores("a tracker works stream by stream"),
    "operate-on-class-ids": refuses("all classes are tracked; `classes` of `detect` leaves some out", off=("", "-1")),
    "user-meta-pool-size": MEMORY,
    **EVERY_GPU,
}
_NOISE = ignores("the trackers here measure or fix the noise of their motion models")
_CORRELATION = ignores("`visual: true` has correlation filters of its own, without settings")
_SCORES = ignores("the trackers here have thresholds of their own")

BASE: Table = {
    "minDetectorConfidence": takes("`low_confidence`"),
}
TARGETS: Table = {
    "enableBboxUnClipping": ignores("boxes are clipped to the frame"),
    "preserveStreamUpdateOrder": ignores("ids depend on nothing but the stream"),
    "maxTargetsPerStream": ignores("the number of tracks has no limit"),
    "minIouDiff4NewTarget": ignores("a detection that no track takes may begin one"),
    "minTrackerConfidence": ignores("a track that is not recognised is where its motion leads, until `max_lost`"),
    "probationAge": takes("`min_hits`"),
    "maxShadowTrackingAge": differs("`max_lost`: a time, and not a number of frames"),
    "earlyTerminationAge": differs("a track that is not confirmed ends by the algorithm's own rule"),
    "outputTerminatedTracks": refuses("a broker with `send: tracks` sends each track at its end"),
    "outputShadowTracks": refuses("boxes that are only predicted are no objects, except with `every`"),
    "terminatedTrackFilename": refuses("a broker with `send: tracks` sends each track at its end", off=("",)),
    "shadowTrackFilename": refuses("boxes that are only predicted are not written", off=("",)),
    "useUniqueID": ignores("ids count from 1 in each stream; `epoch` and stream make them unique"),
    "searchRegionPaddingScale4NewTarget": _CORRELATION,
    "SearchRegionPaddingScale": _CORRELATION,
    "minVisibiilty4Tracking": _CORRELATION,
    "maxTrajectoryBufferLength": ignores("a track keeps as much of its way as its rules need"),
}
TRAJECTORIES: Table = {
    "useUniqueID": ignores("ids count from 1 in each stream; `epoch` and stream make them unique"),
    "enableReAssoc": takes("`appearance: true`, where there is a model for it"),
    "maxTrackletMatchingTimeSearchRange": differs("`reidentify_within`: a time, and not a number of frames"),
    **dict.fromkeys(
        (
            *("minMatchingScore4Overall", "minTrackletMatchingScore", "minMatchingScore4ReidSimilarity"),
            *(
                "matchingScoreWeight4TrackletSimilarity",
                "matchingScoreWeight4ReidSimilarity",
                "minTrajectoryLength4Projection",
            ),
            *("minTrajectoryLength4TrackletMatching", "minSpeedSimilarity4TrackletMatching"),
            *("minBboxSizeSimilarity4TrackletMatching", "maxAngle4TrackletMatching", "maxTrackletMatchingDistance"),
            *("trackletSpacialSearchRegionScale", "trackletSpatialSearchRegionScale"),
            *("enableSpatialReAssoc", "enableVanishingTrackerletProjection", "prepLength4TrajectoryProjection"),
            *("trajectoryProjectionLength", "trajectoryProjectionMinMeasurementNoiseScale", "reidExtractionInterval"),
            *("trajectoryProjectionMeasurementNoiseScale", "trajectoryProjectionProcessNoiseScale"),
        ),
        ignores("what returns is recognised by thresholds that are measured while it runs"),
    ),
}
ASSOCIATION: Table = {
    "dataAssociatorType": ignores("there is one kind of association for each algorithm"),
    "associationMatcherType": takes("`algorithm`"),
    "checkClassMatch": takes("`class_mismatch_weight`"),
    "tentativeDetectorConfidence": takes("`high_confidence`"),
    "minMatchingScore4Overall": _SCORES,
    "minMatchingScore4SizeSimilarity": _SCORES,
    "minMatchingScore4Iou": takes("`iou_threshold`"),
    "minMatchingScore4VisualSimilarity": _SCORES,
    "minMatchingScore4ReidSimilarity": _SCORES,
    "minMatchingScore4TentativeIou": _SCORES,
    "matchingScoreWeight4Iou": _SCORES,
    "matchingScoreWeight4SizeSimilarity": _SCORES,
    "matchingScoreWeight4VisualSimilarity": _SCORES,
    "matchingScoreWeight4ReidSimilarity": _SCORES,
    "matchingScoreWeight4Age": _SCORES,
    "thresholdMahalanobis": _SCORES,
    "minMatchingScore4PeerAssocIou": _SCORES,
    "usePrediction4Assoc": ignores("detections are compared with predicted boxes, except by `iou`"),
}
ESTIMATOR: Table = {
    "stateEstimatorType": takes("`algorithm`"),
    **dict.fromkeys(
        (
            *("processNoiseVar4Loc", "processNoiseVar4Size", "processNoiseVar4Vel", "measurementNoiseVar4Detector"),
            *("measurementNoiseVar4Tracker", "noiseWeightVar4Loc", "noiseWeightVar4Vel", "useAspectRatio"),
        ),
        _NOISE,
    ),
}
VISUAL: Table = {
    "visualTrackerType": takes("`visual: true`"),
    "useColorNames": _CORRELATION,
    "useHog": _CORRELATION,
    "useHighPrecisionFeature": _CORRELATION,
    "featureImgSizeLevel": _CORRELATION,
    "featureFocusOffsetFactor_*": _CORRELATION,
    "filterLr": _CORRELATION,
    "filterChannelWeightsLr": _CORRELATION,
    "gaussianSigma": _CORRELATION,
    "vpiBackend4DcfTracker": _CORRELATION,
}
REID: Table = {
    "reidType": takes("`appearance: true`, and `embed` before the tracker"),
    "onnxFile": takes("`embed: {model}`"),
    "outputReidTensor": refuses("`jsonl: {embeddings: true}` writes them"),
    "batchSize": ignores("found out for each machine"),
    "workspaceSize": ignores("found out for each machine"),
    "reidFeatureSize": ignores("the length is that of the file"),
    "reidHistorySize": ignores("a track keeps as many embeddings as it needs"),
    "inferDims": takes("`embed: {size}`"),
    "networkMode": ignores("found out for each machine (`precision`)"),
    "inputOrder": ignores("the layout is that of the file"),
    "colorFormat": takes("`embed: {color}`"),
    "offsets": takes("`embed: {mean}`"),
    "netScaleFactor": takes("`embed: {scale}`"),
    "keepAspc": takes("`embed: {fit}`"),
    "useVPICropScaler": HARDWARE,
    "addFeatureNormalization": ignores("embeddings have length 1 always"),
    "minVisibility4GalleryUpdate": ignores("the gallery is kept by rules of its own"),
    "tltEncodedModel": refuses("encrypted models cannot be read: export the model to ONNX", off=("",)),
    "tltModelKey": ignores("encrypted models are not read"),
    "modelEngineFile": ignores("engines are built from the ONNX file and cached for each machine"),
    "uffFile": refuses("only ONNX is read: export the model to ONNX", off=("",)),
    "calibrationTableFile": ignores("found out for each machine (`precision`)"),
    "inputBlobName": ignores("the inputs are those of the file"),
    "outputBlobName": ignores("the outputs are those of the file"),
}
_CAMERAS = refuses("tracks of several cameras are brought together by `multi_camera`, a step of its own", off=())
FILE: Mapping[str, Table] = {
    "BaseConfig": BASE,
    "TargetManagement": TARGETS,
    "TrajectoryManagement": TRAJECTORIES,
    "DataAssociator": ASSOCIATION,
    "StateEstimator": ESTIMATOR,
    "VisualTracker": VISUAL,
    "ReID": REID,
    "Segmenter": {"*": refuses("the tracker segments nothing: `segment` is a step")},
    "ObjectModelProjection": {"*": refuses("3D models of objects are not used; `speed` measures on the ground")},
    "MultiViewAssociator": {"*": _CAMERAS},
    "Communicator": {"*": _CAMERAS},
    "PoseEstimator": {"*": refuses("the tracker estimates no poses: `pose` is a step")},
}
