"""The keys that the parsers of DeepStream 9.1 know, section by section."""

from __future__ import annotations

from collections.abc import Mapping

from sightline_plugins.deepstream_import.settings import Table
from sightline_plugins.deepstream_import.tables import application, inference, outputs, tracking

KEYS: Mapping[str, tuple[Table, str]] = {
    "application": (
        application.APPLICATION,
        """
        enable-perf-measurement perf-measurement-interval-sec gie-kitti-output-dir kitti-track-output-dir
        reid-track-output-dir terminated-track-output-dir shadow-track-output-dir global-gpu-id
        """,
    ),
    "tiled-display": (
        application.TILED_DISPLAY,
        """
        enable rows columns width height gpu-id nvbuf-memory-type compute-hw
        """,
    ),
    "source": (
        application.SOURCE,
        """
        enable type uri num-sources camera-width camera-height camera-fps-n camera-fps-d camera-v4l2-dev-node
        camera-csi-sensor-id latency drop-frame-interval drop-on-latency intra-decode-enable low-latency-decode
        num-extra-surfaces select-rtp-protocol leaky max-size-buffers rtsp-reconnect-interval-sec
        init-rtsp-reconnect-interval-sec simulate-fps-interval-ms smart-record smart-rec-dir-path
        smart-rec-file-prefix smart-rec-cache smart-rec-container smart-rec-start-time
        smart-rec-default-duration smart-rec-duration smart-rec-interval udp-buffer-size source-id camera-id
        extract-sei-type5-data gpu-id cudadec-memtype nvbuf-memory-type
        """,
    ),
    "streammux": (
        application.STREAMMUX,
        """
        width height batch-size batched-push-timeout live-source enable-padding buffer-pool-size sort-batch
        cache-buffer sync-inputs sync-inputs-ntp max-latency attach-sys-ts-as-ntp frame-num-reset-on-eos
        frame-num-reset-on-stream-reset frame-duration async-process drop-pipeline-eos num-surfaces-per-frame
        align-first-buffer config-file-path compute-hw gpu-id nvbuf-memory-type
        """,
    ),
    "osd": (
        application.OSD,
        """
        enable process-mode border-width text-size text-color text-bg-color font show-clock clock-x-offset
        clock-y-offset clock-text-size clock-color gpu-id nvbuf-memory-type
        """,
    ),
    "tests": (application.TESTS, "file-loop pipeline-recreate-sec"),
    "img-save": (
        application.IMAGE_SAVE,
        """
        enable output-folder-path save-img-cropped-obj save-img-full-frame frame-to-skip-rules-path
        second-to-skip-interval min-confidence max-confidence min-box-width min-box-height gpu-id
        """,
    ),
    "source-list": (
        application.SOURCE_LIST,
        """
        num-source-bins list sgie-batch-size use-nvmultiurisrcbin max-batch-size sensor-id-list http-ip
        http-port
        """,
    ),
    "sink": (
        outputs.SINK,
        """
        enable type sync qos container codec enc-type bitrate profile iframeinterval output-file rtsp-port
        udp-port source-id link-to-demux msg-conv-config msg-conv-payload-type msg-conv-msg2p-lib
        msg-conv-comp-id msg-conv-msg2p-new-api msg-conv-frame-interval msg-conv-dummy-payload
        msg-broker-proto-lib msg-broker-conn-str msg-broker-config msg-broker-comp-id topic new-api
        disable-msgconv gpu-id
        """,
    ),
    "message-converter": (
        outputs.MESSAGE_CONVERTER,
        """
        enable msg-conv-config msg-conv-payload-type msg-conv-msg2p-lib
        """,
    ),
    "message-consumer": (
        outputs.MESSAGE_CONSUMER,
        """
        enable proto-lib conn-str config-file subscribe-topic-list sensor-list-file
        """,
    ),
    "message-broker": (
        outputs.BROKER,
        """
        username password hostname port exchange topic proto-cfg partition-key share-connection loop-timeout
        client-id
        """,
    ),
    "gie": (
        inference.GIE,
        """
        enable plugin-type batch-size interval gie-unique-id operate-on-gie-id operate-on-class-ids
        model-engine-file labelfile-path config-file bbox-border-color0 bbox-bg-color12 infer-raw-output-dir
        gpu-id nvbuf-memory-type
        """,
    ),
    "nvinfer": (
        inference.NVINFER,
        """
        gie-unique-id process-mode interval batch-size gpu-id network-type network-mode is-classifier onnx-file
        model-file proto-file uff-file uff-input-order uff-input-blob-name uff-input-dims input-dims
        tlt-encoded-model tlt-model-key custom-network-config model-engine-file int8-calib-file workspace-size
        infer-dims force-implicit-batch-dim output-blob-names output-io-formats layer-device-precision
        enable-dla use-dla-core strongly-typed dynamic-properties warmup-engine stabilize-buffer-count
        model-color-format net-scale-factor offsets mean-file maintain-aspect-ratio symmetric-padding
        scaling-filter scaling-compute-hw network-input-order input-tensor-from-meta output-tensor-meta
        disable-output-host-copy tensor-meta-pool-size output-instance-mask raw-output-file-write
        dump-input-tensor dump-output-tensor overwrite-input-tensor overwrite-output-tensor ip-tensor-file
        op-tensor-files labelfile-path num-detected-classes cluster-mode enable-dbscan custom-lib-path
        parse-func parse-bbox-func-name parse-bbox-instance-mask-func-name parse-classifier-func-name
        parse-segmentation-func-name engine-create-func-name classifier-type classifier-threshold
        classifier-async-mode segmentation-threshold segmentation-output-order secondary-reinfer-interval
        input-object-min-width input-object-min-height input-object-max-width input-object-max-height
        operate-on-gie-id operate-on-class-ids filter-out-class-ids crop-objects-to-roi-boundary auto-inc-mem
        max-gpu-mem-per
        """,
    ),
    "class-attrs": (
        inference.CLASS_ATTRIBUTES,
        """
        threshold pre-cluster-threshold post-cluster-threshold eps group-threshold minBoxes dbscan-min-score
        nms-iou-threshold topk roi-top-offset roi-bottom-offset detected-min-w detected-min-h detected-max-w
        detected-max-h border-color bg-color
        """,
    ),
    "nvdspreprocess": (
        inference.PREPROCESS,
        """
        enable unique-id target-unique-ids operate-on-gie-id process-on-frame processing-width processing-height
        maintain-aspect-ratio symmetric-padding scaling-filter scaling-pool-compute-hw scaling-pool-memory-type
        scaling-buf-pool-size tensor-buf-pool-size network-input-order network-input-shape network-color-format
        tensor-data-type tensor-name custom-lib-path custom-tensor-preparation-function
        """,
    ),
    "group": (
        inference.PREPROCESS_GROUP,
        """
        src-ids process-on-roi process-on-all-objects roi-params-src-0 draw-roi roi-color
        custom-input-transformation-function operate-on-class-ids interval input-object-min-width
        input-object-min-height input-object-max-width input-object-max-height
        """,
    ),
    "tracker": (
        tracking.TRACKER,
        """
        enable tracker-width tracker-height ll-lib-file ll-config-file display-tracking-id
        tracking-id-reset-mode input-tensor-meta tensor-meta-gie-id sub-batches operate-on-class-ids
        user-meta-pool-size gpu-id
        """,
    ),
    "TargetManagement": (
        tracking.TARGETS,
        """
        probationAge earlyTerminationAge maxShadowTrackingAge minTrackerConfidence minIouDiff4NewTarget
        outputShadowTracks enableBboxUnClipping preserveStreamUpdateOrder maxTargetsPerStream
        """,
    ),
    "DataAssociator": (
        tracking.ASSOCIATION,
        """
        dataAssociatorType associationMatcherType checkClassMatch usePrediction4Assoc
        tentativeDetectorConfidence minMatchingScore4TentativeIou thresholdMahalanobis minMatchingScore4Overall
        minMatchingScore4Iou matchingScoreWeight4Iou matchingScoreWeight4VisualSimilarity
        """,
    ),
    "TrajectoryManagement": (
        tracking.TRAJECTORIES,
        """
        useUniqueID enableReAssoc maxTrackletMatchingTimeSearchRange
        """,
    ),
    "analytics property": (
        outputs.ANALYTICS_PROPERTY,
        """
        enable config-width config-height osd-mode display-font-size obj-cnt-win-in-ms display-obj-cnt
        """,
    ),
    "roi-filtering": (outputs.ROI, "enable roi-RF inverse-roi class-id"),
    "overcrowding": (outputs.OVERCROWDING, "enable roi-OC object-threshold time-threshold class-id"),
    "line-crossing": (outputs.LINE_CROSSING, "enable line-crossing-Exit extended mode class-id"),
    "direction-detection": (outputs.DIRECTION, "enable direction-South mode class-id"),
}
