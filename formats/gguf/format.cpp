#include "formats/gguf/format.hpp"

#include "formats/gguf/header.hpp"
#include "formats/gguf/source.hpp"

namespace troupe::formats {

constexpr source_format gguf_format{
    .described = "weights in a GGUF file",
    .file_kind = "a GGUF file",
    .in_file =
        [](const file_start& start) { return begins_like_gguf(start.bytes) ? likeness::certain : likeness::none; },
    .open = [](const std::filesystem::path& path, const source_options&) { return read_gguf_source(path); },
};

}  // namespace troupe::formats
