#pragma once
// A model's shape as JSON: every key of [model], so that a checkpoint needs no run file.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lathe/model/config.h"

namespace lathe::train {

nlohmann::ordered_json to_json(const model::ModelConfig& m);

/// Throws Error naming the key that is missing or of a wrong type; `path` is where it was read.
model::ModelConfig model_from_json(const nlohmann::ordered_json& j, const std::string& path);

}  // namespace lathe::train
