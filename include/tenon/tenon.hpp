// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/build.h>
#include <tenon/calibration.h>
#include <tenon/device.h>
#include <tenon/dlpack.h>
#include <tenon/engine.h>
#include <tenon/error.h>
#include <tenon/explain.h>
#include <tenon/judge.h>
#include <tenon/limits.h>
#include <tenon/logger.h>
#include <tenon/plugin.h>
#include <tenon/session.h>
#include <tenon/tensor.h>
#include <tenon/version.h>

/// Tenon: an ONNX model in, an engine tuned for this machine out. Everything that fails on the user's side throws
/// tenon::Error. The same for C, and for languages that call C, is <tenon/tenon.h>.
