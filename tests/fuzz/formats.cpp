// What libFuzzer calls with bytes of its own making: each format's reader takes them or refuses them, and what it took
// can be looked at to its last value. Allocations are bounded by -malloc_limit_mb.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "checkpoint/deepspeed_source.hpp"
#include "checkpoint/manifest_text.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/source_reader.hpp"
#include "checkpoint/torch_archive.hpp"
#include "checkpoint/zip_reader.hpp"
#include "core/tensor_view.hpp"

namespace {

namespace fs = std::filesystem;
using namespace troupe;
using namespace troupe::checkpoint;
using bytes = std::span<const std::byte>;

/// Stops the run: libFuzzer keeps the input that led here.
void wanted(bool holds) {
  if (!holds) std::abort();
}

/// A folder of this process.
const fs::path& folder() {
  static const fs::path at = [] {
    auto path = fs::temp_directory_path() / ("troupe-fuzz-" + std::to_string(::getpid()));
    fs::create_directories(path);
    return path;
  }();
  return at;
}

fs::path written(const char* name, bytes content) {
  const auto path = folder() / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  return path;
}

[[maybe_unused]] void fuzz_zip(bytes input) {
  const auto entries = read_zip(input);
  if (!entries) return;
  for (const auto& e : *entries) wanted(e.begin <= input.size() && e.bytes <= input.size() - e.begin);
}

[[maybe_unused]] void fuzz_pickle(bytes input) {
  const auto tree = read_pickle(input);
  if (!tree) return;
  wanted(tree->bytes_read() <= input.size());
  for (pickle_ref v = 0; v < tree->size(); ++v)
    for (const pickle_ref item : tree->items(v)) wanted(item < tree->size());
}

[[maybe_unused]] void fuzz_torch_archive(bytes input) {
  const auto file = checkpoint::torch_archive::open(written("input.pt", input));
  if (!file) return;
  (void)file->unknown_globals();
  for (pickle_ref v = 0; v < file->tree().size(); ++v)
    if (const auto t = file->tensor(v); t && t->is_contiguous())
      wanted(t->begin <= input.size() && t->numel <= (input.size() - t->begin) / core::size_of(t->type));
}

[[maybe_unused]] void fuzz_safetensors(bytes input) {
  const auto file = safetensors_file::open(written("input.safetensors", input));
  if (!file) return;
  for (const auto& e : file->entries()) wanted(file->bytes(e).size() == e.end - e.begin);
}

[[maybe_unused]] void fuzz_manifest(bytes input) {
  const std::string_view body(reinterpret_cast<const char*>(input.data()), input.size());
  (void)parse_manifest(body);
  const auto read = parse_manifest(sealed(body));  // behind a good seal, so that the rest is reached
  if (read) wanted(check_manifest(*read).has_value());
}

/// One of the two files of a checkpoint of one rank; the first byte says which, the other one is missing or an earlier
/// input.
[[maybe_unused]] void fuzz_deepspeed(bytes input) {
  if (input.empty()) return;
  const bool model = (std::to_integer<unsigned>(input.front()) & 1U) == 0;
  written(model ? "mp_rank_00_model_states.pt" : "zero_pp_rank_0_mp_rank_00_optim_states.pt", input.subspan(1));
  const auto source = read_deepspeed_source(folder());
  if (!source) return;
  source_reader reader(*source);
  for (const auto& t : source->tensors) {
    std::vector<std::byte> out(core::size_of(t.type));
    if (core::numel_of(t.shape) > 0) wanted(reader.read(t, core::numel_of(t.shape) - 1, 1, out).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TROUPE_FUZZED(std::as_bytes(std::span(data, size)));
  return 0;
}
