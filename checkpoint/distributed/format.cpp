#include "checkpoint/distributed/format.hpp"

#include "checkpoint/distributed/safetensors_shards.hpp"
#include "checkpoint/distributed/source.hpp"
#include "checkpoint/files/file_system.hpp"
#include "checkpoint/torch/distributed_metadata.hpp"

namespace troupe::checkpoint {

namespace fs = std::filesystem;

constexpr source_format distributed_format{
    .described = "a folder of torch.distributed.checkpoint",
    .lacks = "no .metadata (torch.distributed.checkpoint)",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      const bool has_metadata = is_there(folder / distributed_metadata_name) ||
                                is_there(folder / accelerate_model_folder / distributed_metadata_name);
      return has_metadata || holds_safetensors_shards(folder) ? likeness::certain : likeness::none;
    },
    .has_states =
        [](const fs::path& folder) {
          const bool is_accelerates =
              !is_there(folder / distributed_metadata_name) && is_folder(folder / accelerate_model_folder);
          return !is_accelerates || is_folder(folder / accelerate_optimizer_folder) ||
                 is_there(folder / "optimizer.bin");
        },
    .open = [](const fs::path& path, const source_options&) { return read_distributed_source(path); },
    .has_module_names = true,
    .has_trainer_files = true,
    .lies_below_config = true,
};

}  // namespace troupe::checkpoint
