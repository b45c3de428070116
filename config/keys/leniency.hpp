// Lists the sections in which DeepSpeed itself is strict; they determine how leniently a DeepSpeed file is read.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace troupe::config {

/// True for sections whose unknown keys DeepSpeed itself refuses.
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

/// True for sections in which a quoted value such as `"true"` or `"1"` is read as a boolean or number: the sections
/// that are strict in DeepSpeed, and `aio`, because ds_nvme_tune writes `"true"` there.
inline bool converts_texts(std::string_view section) { return section == "aio" || strict_in_deepspeed(section); }

}  // namespace troupe::config
