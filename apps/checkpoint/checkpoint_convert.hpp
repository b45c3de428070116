// Runs `troupe checkpoint to-fp32`, `to-hf`, `to-gguf`, `to-universal`, `to-deepspeed`, `to-dcp`, `reshape`: writes any
// checkpoint as files of another format. OUT appears whole, or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/checkpoint/checkpoint_arguments.hpp"

namespace troupe::apps {

struct weights_arguments {  ///< arguments of to-fp32 and to-hf
  source_arguments source;
  output_arguments output;
  std::string max_shard_size = "5GB";
  bool exclude_frozen = false;
  std::string dtype = "fp32";        ///< type of the written weights; only to-hf uses it
  std::string model_config;          ///< path of config.json, for a checkpoint that does not describe its model
  std::vector<std::string> given{};  ///< options on the command line; those without effect are refused
};

struct gguf_arguments {  ///< arguments of `checkpoint to-gguf`
  source_arguments source;
  output_arguments output;
  std::string type = "q8_0";
  std::string tokenizer;     ///< path of the tokenizer, or `bytes`; empty: the checkpoint's own
  std::string model_config;  ///< path of config.json, for a checkpoint that does not describe its model
};

/// Arguments of to-deepspeed; of to-universal, which has no stage and ranks; and of to-dcp, which has no stage, type
/// and integer steps.
struct deepspeed_arguments {
  source_arguments source;
  output_arguments output;
  uint32_t stage = 2, ranks = 1;
  std::string dtype = "fp32";
  /// Path of a topology or ds_config.json that describes the optimizer; empty: the configuration in the checkpoint does
  std::string job;
  std::string model_config;  ///< path of config.json, for a checkpoint that does not describe its model
  /// True: the optimizer's step counts are written as integers, which DeepSpeed's own optimizers require
  bool integer_steps = false;
  std::vector<std::string> given{};  ///< options on the command line; those without effect are refused
};

struct reshape_arguments {
  deepspeed_arguments written;  ///< options shared with to-deepspeed; its `ranks` is the data-parallel degree
  uint32_t tensor = 1, pipeline = 1;
  /// First layer of each pipeline stage; empty: layers are divided evenly.
  std::vector<uint32_t> partition;
  /// Megatron's checkpoint_version of the source and of the output, which decides the order of query, key and value
  std::optional<double> qkv_version, to_qkv_version;
  uint32_t heads = 0;  ///< number of attention heads, which to_qkv_version requires
  /// Path of a file of tensor names, in the form of --map, that is applied in reverse to the written names; empty:
  /// none.
  std::string map_back;
};

/// Opens the checkpoint that to-fp32 converts, with the model's names for its tensors if they are known.
core::result<formats::tensor_source> open_for_fp32(const weights_arguments& a);

core::result<void> write_fp32(const weights_arguments& a);
core::result<void> write_hugging_face(const weights_arguments& a);
core::result<void> write_gguf(const gguf_arguments& a);
core::result<void> write_deepspeed(const deepspeed_arguments& a);
core::result<void> write_universal(const deepspeed_arguments& a);
core::result<void> write_distributed(const deepspeed_arguments& a);
core::result<void> write_reshaped(const reshape_arguments& a);

}  // namespace troupe::apps
