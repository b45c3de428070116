// Files that Hugging Face's Accelerate writes: their keys in DeepSpeed's words. Leaves what keys mean to the key table.
#pragma once

#include <filesystem>

#include "config/document/document.hpp"
#include "config/rules/settings.hpp"

namespace troupe::config {

/// True if a root has keys that Accelerate alone writes.
bool is_accelerate_file(const node& root);
/// True if such keys are in the file; false where it cannot be read.
bool is_accelerate_file(const std::filesystem::path& file);

/// The root of such a file in the words of the key table: the number of processes, the number format, and FSDP's
/// section as keys of `zero_optimization`; what it says of machines and launchers is left out. Errors: a kind of
/// parallelism, a strategy or a key of FSDP that has no such words. Unknown keys of the root are warned about.
node_ptr accelerate_root(const node& root, reporter& report);

/// The contents of a `deepspeed_config` mapping: DeepSpeed's own keys as they are, Accelerate's spellings of them
/// (`zero_stage`, `offload_optimizer_device`) where DeepSpeed has them.
node_ptr accelerate_section(const node& section);

/// The text of `deepspeed_config_file` inside of it, or null.
node_ptr accelerate_file_named(const node& section);

}  // namespace troupe::config
