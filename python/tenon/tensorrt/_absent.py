# SPDX-License-Identifier: Apache-2.0
"""What TensorRT 8.6 to 10 has and Tenon does not offer, with what to use instead."""

from __future__ import annotations

from typing import Dict

_ONNX = "build the ONNX model with it (onnx.helper), or with torch.onnx"
_PLUGIN = "write a plugin of Tenon (include/tenon/custom_op.h), or try one out with tenon.custom_op"
_TUNES = "tenon tunes by itself; Engine.why() says what it chose"
_MACHINE = "engines are tuned for the machine that builds them, and run on others of its kind; tenon.retune tunes anew"
_FILES = "read the file, and give deserialize_cuda_engine its bytes"
_STORED = "serialize() gives the engine's bytes whole; Refitter changes weights of engines built with REFIT"
_MEMORY = "sessions have memory of their own: create_execution_context() without a strategy; tenon.Limits bounds it"
_STREAMED = "weights stay where the engine runs"
_DEBUG = "mark_output makes a value an output; tenon.torch.compare finds the first layer that differs"
_SHAPES = "give the input its values with set_tensor_address; sizes that depend on them are found by the run"
_INTERFACE = "subclass ILogger, IProfiler, IProgressMonitor, IOutputAllocator or a calibrator"


def _all(names: str, advice: str) -> Dict[str, str]:
    return {name: advice for name in names.split()}


MODULE: Dict[str, str] = {
    **_all("UffParser CaffeParser UffInputOrder ICaffePoolOutputDimensionsFormula", "export the model to ONNX"),
    **_all(
        "IPluginV2 IPluginV2Ext IPluginV2IOExt IPluginV2DynamicExt IPluginV2DynamicExtBase IPluginV2Layer IPluginV3 "
        "IPluginV3Layer IPluginV3OneCore IPluginV3OneBuild IPluginV3OneBuildV2 IPluginV3OneRuntime IPluginV3QuickCore "
        "IPluginV3QuickBuild IPluginV3QuickAOTBuild IPluginV3QuickRuntime IPluginCapability IPluginCreator "
        "IPluginCreatorInterface IPluginCreatorV3One IPluginCreatorV3Quick IPluginResource IPluginResourceContext "
        "PluginField PluginFieldCollection PluginFieldCollection_ PluginFieldType PluginTensorDesc "
        "DynamicPluginTensorDesc PluginCapabilityType PluginCreatorVersion PluginVersion PluginArgType "
        "PluginArgDataType PluginAttr TensorRTPhase DimsExprs IDimensionExpr IExprBuilder ISymExpr ISymExprs "
        "IKernelLaunchParams KernelLaunchParams SymExpr QuickPluginCreationRequest get_builder_plugin_registry plugin",
        "operators are those of ONNX, with NonMaxSuppression among them; for others " + _PLUGIN,
    ),
    **_all(
        "IAlgorithm IAlgorithmContext IAlgorithmIOInfo IAlgorithmSelector IAlgorithmVariant TimingCacheKey "
        "TimingCacheValue TilingOptimizationLevel",
        _TUNES,
    ),
    **_all("IGpuAllocator IGpuAsyncAllocator AllocatorFlag", "tenon.Limits bounds what is taken"),
    **_all("HardwareCompatibilityLevel RuntimePlatform ComputeCapability", _MACHINE),
    **_all("IStreamReader IStreamReaderV2 SeekPosition", _FILES),
    "IStreamWriter": "build_serialized_network gives the engine's bytes: write these",
    **_all("SerializationFlag ISerializationConfig", _STORED),
    **_all("ExecutionContextAllocationStrategy IRuntimeConfig CudaGraphStrategy DynamicShapesKernelStrategy", _MEMORY),
    "EngineStat": "EngineInspector and Engine.inspect() tell of an engine",
    "TempfileControlFlag": "nothing is written to temporary files",
    "QuantizationFlag": "calibration chooses by itself; layer.precision keeps a layer in floating point",
    **_all("IDebugListener", _DEBUG),
    **_all("IVersionedInterface InterfaceInfo APILanguage", _INTERFACE),
    **_all(
        "Permutation ActivationType AttentionNormalizationOp AttentionMaskKind BoundingBoxFormat CollectiveOperation "
        "CumulativeOperation DimensionOperation ElementWiseOperation FillOperation GatherMode InterpolationMode "
        "KVCacheMode LoopOutput MatrixOperation MoEActType NormalizationMode PaddingMode PoolingType ReduceOperation "
        "ResizeMode ResizeCoordinateTransformation ResizeRoundMode ResizeSelector SampleMode SliceMode ScaleMode "
        "ScatterMode TopKOperation TripLimit UnaryOperation RNNOperation RNNDirection RNNInputMode RNNGateType "
        "IActivationLayer IAssertionLayer IAttention ICastLayer IConcatenationLayer IConditionLayer IConstantLayer "
        "IConvolutionLayer ICumulativeLayer IDeconvolutionLayer IDequantizeLayer IDynamicQuantizeLayer IEinsumLayer "
        "IElementWiseLayer IFillLayer IFullyConnectedLayer IGatherLayer IGridSampleLayer IIdentityLayer IIfConditional "
        "IIfConditionalBoundaryLayer IIfConditionalInputLayer IIfConditionalOutputLayer IIteratorLayer "
        "IKVCacheUpdateLayer "
        "ILoop ILoopBoundaryLayer ILoopOutputLayer ILRNLayer IMatrixMultiplyLayer IMoELayer INMSLayer INonZeroLayer "
        "INormalizationLayer IOneHotLayer IPaddingLayer IParametricReLULayer IPoolingLayer IQuantizeLayer "
        "IRaggedSoftMaxLayer IRecurrenceLayer IReduceLayer IResizeLayer IReverseSequenceLayer IRNNv2Layer "
        "IRotaryEmbeddingLayer IScaleLayer IScatterLayer ISelectLayer IShapeLayer IShuffleLayer ISliceLayer "
        "ISoftMaxLayer "
        "ISqueezeLayer ITopKLayer ITripLimitLayer IUnaryLayer IUnsqueezeLayer",
        "networks come from OnnxParser, and every layer is an ILayer: " + _ONNX,
    ),
    **_all("fp4 e8m0", "Tenon computes no such type: use int8, fp8 or fp16"),
}

# Flags of BuilderConfig: those that cannot be set, and those that change nothing, which the build tells.
REFUSED_FLAGS: Dict[str, str] = {"FP4": "Tenon computes no such type: use INT8, FP8 or FP16"}
IDLE_FLAGS: Dict[str, str] = {
    "INT4": 'weights that the model has in INT4 stay so; tenon.build(weights="int4") rounds those of another model',
    "WEIGHT_STREAMING": _STREAMED,
    "STRIP_PLAN": "the engine's bytes hold its weights",
    "VERSION_COMPATIBLE": _MACHINE,
    "SAFETY_SCOPE": "there is no runtime with a safety certificate",
}

CLASSES: Dict[str, Dict[str, str]] = {
    "BuilderFlag": {**REFUSED_FLAGS, **IDLE_FLAGS},
    "Builder": {
        "get_plugin_registry": "trt.get_plugin_registry() is there; for plugins " + _PLUGIN,
        "build_serialized_network_to_stream": "build_serialized_network gives the bytes: write these",
        **_all("average_find_iterations min_find_iterations debug_sync", _TUNES),
        "max_DLA_batch_size": "there is no DLA",
    },
    "IBuilderConfig": {
        **_all("algorithm_selector max_num_tactics tiling_optimization_level l2_limit_for_tiling", _TUNES),
        **_all("remote_auto_tuning_config", _TUNES),
        **_all("hardware_compatibility_level runtime_platform set_compute_capability get_compute_capability", _MACHINE),
        "num_compute_capabilities": _MACHINE,
        "plugins_to_serialize": _PLUGIN,
        **_all(
            "set_quantization_flag get_quantization_flag clear_quantization_flag",
            "calibration chooses by itself; layer.precision keeps a layer in floating point",
        ),
        **_all("is_device_type_set reset_device_type", "there is no DLA: layers stay where they are"),
    },
    "IOptimizationProfile": {},
    "ITimingCache": _all("queryKeys query update", _TUNES),
    "INetworkDefinition": {
        "remove_tensor": _ONNX,
        **_all("mark_debug unmark_debug is_debug_tensor", _DEBUG),
        **_all("mark_unfused_tensors_as_debug_tensors unmark_unfused_tensors_as_debug_tensors", _DEBUG),
        **_all("mark_output_for_shapes unmark_output_for_shapes", "outputs are values: mark_output"),
        **_all(
            "mark_weights_refittable unmark_weights_refittable are_weights_marked_refittable set_weights_name",
            "BuilderFlag.REFIT makes all weights refittable, by their names in the ONNX model",
        ),
        "builder": "keep the Builder that made it",
        "error_recorder": "errors go to the logger, and to OnnxParser.get_error",
    },
    "ITensor": {
        "broadcast_across_batch": "batches are explicit",
        **_all("get_dimension_name set_dimension_name", "shape has -1 for sizes that are free"),
    },
    "ILayer": {
        "metadata": "name is the ONNX node's",
        **_all(
            "kernel bias kernel_size kernel_size_nd kernel_shape stride stride_nd padding padding_nd dilation "
            "dilation_nd "
            "num_groups num_output_maps alpha beta axis axes keep_dims op mode reshape_dims first_transpose "
            "second_transpose shape weights scale shift power k window_size window_size_nd pre_padding post_padding "
            "start stride_ set_input num_ranks",
            "read it of the ONNX model, and edit it there (onnx.helper)",
        ),
    },
    "OnnxParser": {
        "parse_with_weight_descriptors": "parse(model, path) reads weights beside the path",
        **_all(
            "load_model_proto load_initializer parse_model_proto supports_model_v2 num_subgraphs get_subgraph_nodes "
            "is_subgraph_supported supports_operator",
            "parse, parse_from_file and supports_model tell; docs list the operators (tenon.operators)",
        ),
        "get_used_vc_plugin_libraries": _PLUGIN,
        "set_builder_config": "the parser needs no configuration",
        "error_recorder": "get_error gives what is wrong",
    },
    "Runtime": {
        "get_plugin_registry": "trt.get_plugin_registry() is there; for plugins " + _PLUGIN,
        "load_runtime": "Tenon has one runtime, which reads engines of its own and earlier versions of their format",
        **_all("temporary_directory tempfile_control_flags", "nothing is written to temporary files"),
    },
    "ICudaEngine": {
        **_all(
            "weight_streaming_budget weight_streaming_budget_v2 minimum_weight_streaming_budget "
            "weight_streaming_scratch_memory_size get_weight_streaming_automatic_budget",
            _STREAMED,
        ),
        **_all(
            "device_memory_size_v2 get_device_memory_size_for_profile get_device_memory_size_for_profile_v2",
            "Session.memory() of tenon tells the bytes that a run takes",
        ),
        **_all("create_serialization_config serialize_with_config", _STORED),
        "create_runtime_config": _MEMORY,
        "get_engine_stat": "EngineInspector and Engine.inspect() tell of an engine",
        **_all("tactic_sources engine_capability", _TUNES),
        "is_debug_tensor": _DEBUG,
        **_all("get_tensor_profile_values get_profile_shape_input", _SHAPES),
        "get_aliased_input_tensor": "no output lies on an input's memory",
    },
    "IExecutionContext": {
        **_all("device_memory set_device_memory update_device_memory_size_for_shapes temporary_allocator", _MEMORY),
        **_all("persistent_cache_limit runtime_config communicator set_communicator", _MEMORY),
        **_all(
            "set_debug_listener get_debug_listener set_tensor_debug_state get_debug_state set_all_tensors_debug_state "
            "unfused_tensors_debug_state",
            _DEBUG,
        ),
        "set_aux_streams": "runs take the one stream that they are given",
        **_all("set_input_consumed_event get_input_consumed_event", "record an event behind execute_async_v3"),
        **_all("get_strides get_tensor_strides", "tensors are dense: strides follow from get_tensor_shape"),
        **_all("set_shape_input get_shape", _SHAPES),
        **_all("set_output_tensor_address get_output_tensor_address", "use set_tensor_address and get_tensor_address"),
    },
    "EngineInspector": {},
    "Refitter": {
        **_all(
            "get_dynamic_range set_dynamic_range get_tensors_with_dynamic_range", "calibrated engines are built anew"
        )
    },
    "OnnxParserRefitter": _all("load_model_proto load_initializer refit_model_proto", "use refit_from_bytes"),
    "IPluginRegistry": _all(
        "register_creator deregister_creator load_library deregister_library deserialize_library "
        "acquire_plugin_resource "
        "release_plugin_resource is_parent_search_enabled all_creators_recursive error_recorder "
        "plugin_creator_list_recursive",
        "tenon.load_plugin loads plugins of Tenon; " + _PLUGIN,
    ),
}
