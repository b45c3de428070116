// `troupe checkpoint to-fp32`, `to-hf`, `to-gguf`, `to-universal`, `to-deepspeed`, `to-dcp`, `reshape`: any checkpoint
// as files for others. OUT appears whole, or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/checkpoint/checkpoint_arguments.hpp"

namespace troupe::apps {

struct weights_arguments {  ///< of to-fp32 and to-hf
  source_arguments source;
  output_arguments output;
  std::string max_shard_size = "5GB";
  bool exclude_frozen = false;
  std::string dtype = "fp32";        ///< to-hf
  std::string model_config;          ///< a config.json where the checkpoint does not describe its model
  std::vector<std::string> given{};  ///< options by hand, of which those that would do nothing are refused
};

struct gguf_arguments {  ///< of to-gguf
  source_arguments source;
  output_arguments output;
  std::string type = "q8_0";
  std::string tokenizer;     ///< a path or `bytes`; empty: what the checkpoint has
  std::string model_config;  ///< as weights_arguments::model_config
};

struct deepspeed_arguments {  ///< of to-deepspeed and, without stage and ranks, to-universal
  source_arguments source;
  output_arguments output;
  uint32_t stage = 2, ranks = 1;
  std::string dtype = "fp32";
  std::string job;                   ///< a topology or ds_config.json instead of the checkpoint's own
  std::string model_config;          ///< as weights_arguments::model_config
  bool integer_steps = false;        ///< the optimizer's steps as DeepSpeed's own optimizers want them
  std::vector<std::string> given{};  ///< as weights_arguments::given
};

struct distributed_arguments {  ///< of to-dcp
  source_arguments source;
  output_arguments output;
  uint32_t ranks = 1;
  std::string job, model_config;     ///< as of deepspeed_arguments
  std::vector<std::string> given{};  ///< as weights_arguments::given
};

struct reshape_arguments {
  deepspeed_arguments written;  ///< its `ranks` are the data-parallel ones
  uint32_t tensor = 1, pipeline = 1;
  std::vector<uint32_t> partition;                    ///< the first layer of each stage; empty: evenly
  std::optional<double> qkv_version, to_qkv_version;  ///< Megatron's checkpoint_version
  uint32_t heads = 0;                                 ///< of attention: for to_qkv_version
  std::string map_back;                               ///< a file of names, read backwards; empty: none
};

/// What to-fp32 writes: the checkpoint, its tensors called as the model calls them where that is known.
core::result<checkpoint::tensor_source> open_for_fp32(const weights_arguments& a);

core::result<void> write_fp32(const weights_arguments& a);
core::result<void> write_hugging_face(const weights_arguments& a);
core::result<void> write_gguf(const gguf_arguments& a);
core::result<void> write_deepspeed(const deepspeed_arguments& a);
core::result<void> write_universal(const deepspeed_arguments& a);
core::result<void> write_distributed(const distributed_arguments& a);
core::result<void> write_reshaped(const reshape_arguments& a);

}  // namespace troupe::apps
