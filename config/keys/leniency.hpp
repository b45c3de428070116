// In which sections DeepSpeed is strict itself: what decides how leniently a file of its own is read.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace troupe::config {

/// Sections whose unknown keys DeepSpeed refuses itself.
inline bool strict_in_deepspeed(std::string_view section) {
  constexpr std::string_view strict[] = {"fp16",
                                         "bf16",
                                         "tensorboard",
                                         "csv_monitor",
                                         "wandb",
                                         "comet",
                                         "compile",
                                         "hybrid_engine",
                                         "comms_logger",
                                         "tensor_parallel",
                                         "tensor_parallel.tensor_parallel",
                                         "timers.throughput",
                                         "weight_quantization"};
  return section.starts_with("zero_optimization") || std::ranges::find(strict, section) != std::end(strict);
}

/// Sections in which a text counts as the value it spells: those, and one that ds_nvme_tune writes with `"true"`.
inline bool converts_texts(std::string_view section) { return section == "aio" || strict_in_deepspeed(section); }

}  // namespace troupe::config
