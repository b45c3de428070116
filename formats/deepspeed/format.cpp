#include "formats/deepspeed/format.hpp"

#include <fmt/format.h>

#include "formats/deepspeed/files.hpp"
#include "formats/deepspeed/source.hpp"
#include "formats/deepspeed/universal_source.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {

namespace fs = std::filesystem;

constexpr source_format deepspeed_format{
    .described = "a DeepSpeed checkpoint",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      std::error_code ec;
      if (const fs::directory_iterator at(folder, ec); ec)
        return core::fail(core::error_kind::io, fmt::format("cannot list '{}': {}", folder.string(), ec.message()));
      return holds_deepspeed_files(folder) ? likeness::certain : likeness::none;
    },
    .open = [](const fs::path& path, const source_options&) { return read_deepspeed_source(path); },
    .has_module_names = true,
    .lies_below_config = true,
};

constexpr source_format universal_format{
    .described = "a universal DeepSpeed checkpoint",
    .lacks = "no *_model_states.pt or folder zero (DeepSpeed)",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      return storage::is_folder(folder / "zero") ? likeness::certain : likeness::none;
    },
    .open = [](const fs::path& path, const source_options&) { return read_universal_source(path); },
    .has_module_names = true,
    .lies_below_config = true,
};

}  // namespace troupe::formats
