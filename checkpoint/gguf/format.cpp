#include "checkpoint/gguf/format.hpp"

#include "checkpoint/gguf/header.hpp"
#include "checkpoint/gguf/source.hpp"

namespace troupe::checkpoint {

constexpr source_format gguf_format{
    .described = "weights in a GGUF file",
    .file_kind = "a GGUF file",
    .in_file =
        [](const file_start& start) { return begins_like_gguf(start.bytes) ? likeness::certain : likeness::none; },
    .open = [](const std::filesystem::path& path, const source_options&) { return read_gguf_source(path); },
};

}  // namespace troupe::checkpoint
