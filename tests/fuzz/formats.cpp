// Defines entry points of libFuzzer: each format's reader accepts or refuses the bytes, and an accepted file can be
// read to its last value. -malloc_limit_mb bounds the allocations.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "checkpoint/convert/weight_store.hpp"
#include "checkpoint/native/manifest_text.hpp"
#include "core/tensor_view.hpp"
#include "formats/compressed/source.hpp"
#include "formats/deepspeed/checkpoint_index.hpp"
#include "formats/deepspeed/files.hpp"
#include "formats/deepspeed/source.hpp"
#include "formats/gguf/source.hpp"
#include "formats/report/verify.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/tensors/tensor_shares.hpp"
#include "formats/torch/archive.hpp"
#include "formats/torch/zip_reader.hpp"
#include "tests/fuzz/input.hpp"

namespace {

namespace fs = std::filesystem;
using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;

[[maybe_unused]] void fuzz_zip(bytes input) {
  const auto list = read_zip(input);
  if (!list) return;
  for (const auto& e : list->entries) wanted(e.begin <= input.size() && e.bytes <= input.size() - e.begin);
}

[[maybe_unused]] void fuzz_pickle(bytes input) {
  const auto tree = read_pickle(input);
  if (!tree) return;
  wanted(tree->bytes_read() <= input.size());
  for (pickle_ref v = 0; v < tree->size(); ++v)
    for (const pickle_ref item : tree->items(v)) wanted(item < tree->size());
}

[[maybe_unused]] void fuzz_torch_archive(bytes input) {
  const auto file = formats::torch_archive::open(written("input.pt", input));
  if (!file) return;
  (void)file->unknown_globals();
  for (pickle_ref v = 0; v < file->tree().size(); ++v)
    if (const auto t = file->tensor(v); t && t->is_contiguous())
      wanted(t->begin <= input.size() && t->numel <= (input.size() - t->begin) / core::size_of(t->type));
}

[[maybe_unused]] void fuzz_safetensors(bytes input) {
  const auto file = safetensors_file::open(written("input.safetensors", input));
  if (!file) return;
  for (const auto& e : file->entries()) wanted(file->bytes(e).has_value());
}

/// Checks that the first and the last element of every tensor can be read, in the model's order, unless a scale is not
/// a number.
[[maybe_unused]] void fuzz_gguf(bytes input) {
  const auto source = read_gguf_source(written("input.gguf", input));
  if (!source) return;
  (void)gguf_metadata_of(*source);
  source_reader reader(*source);
  for (const auto& t : source->tensors) {
    const uint64_t elements = core::numel_of(t.shape);
    std::vector<std::byte> out(core::size_of(t.type));
    for (const uint64_t at : {uint64_t{0}, elements - 1}) {
      const auto read = reader.read(t, at, 1, out);
      wanted(read.has_value() || read.error().kind == core::error_kind::bad_input);
    }
  }
}

/// Reads an input of config.json, a zero byte and the weights. Without the zero byte the weights of an earlier input
/// are used.
[[maybe_unused]] void fuzz_compressed(bytes input) {
  const auto end = std::ranges::find(input, std::byte{0});
  const auto config = input.first(static_cast<size_t>(end - input.begin()));
  written("config.json", config);
  if (end != input.end()) written("model.safetensors", input.subspan(config.size() + 1));
  const auto source = hugging_face_format.open(fuzz_folder(), {});
  if (!source) return;
  source_reader reader(*source);
  for (const auto& t : source->tensors) {
    const uint64_t elements = std::min<uint64_t>(core::numel_of(t.shape), 1U << 16);
    std::vector<std::byte> out(elements * core::size_of(t.type));
    (void)reader.read(t, 0, elements, out);  // fails if the scales are missing
  }
}

[[maybe_unused]] void fuzz_manifest(bytes input) {
  const std::string_view body(reinterpret_cast<const char*>(input.data()), input.size());
  (void)parse_manifest(body);
  const auto read = parse_manifest(sealed(body));  // a valid digest is added, so that the parser reads the rest
  if (!read) return;
  wanted(check_manifest(*read).has_value());
  for (const auto& t : read->tensors) {
    uint64_t held = 0;
    const tensor_shares shares(t);
    for (const auto& part : shares.parts_of(0, core::numel_of(t.shape))) held += part.count;
    wanted(held == core::numel_of(t.shape));
  }
}

/// Reads one of the two files of a checkpoint of one rank. The first byte selects the file; the other file is missing
/// or comes from an earlier input.
[[maybe_unused]] void fuzz_deepspeed(bytes input) {
  if (input.empty()) return;
  const bool model = (std::to_integer<unsigned>(input.front()) & 1U) == 0;
  written(model ? "mp_rank_00_model_states.pt" : "zero_pp_rank_0_mp_rank_00_optim_states.pt", input.subspan(1));
  const auto source = read_deepspeed_source(fuzz_folder());
  if (!source) return;
  source_reader reader(*source);
  for (const auto& t : source->tensors) {
    std::vector<std::byte> out(core::size_of(t.type));
    if (core::numel_of(t.shape) == 0) continue;
    const auto did = reader.read(t, core::numel_of(t.shape) - 1, 1, out);
    wanted(did || is_damage(did.error()));  // a changed entry of an archive differs from its CRC-32
  }
}

/// Reads names of files, one on each line, followed by a zero byte and the content that all of them get.
[[maybe_unused]] void fuzz_checkpoint_names(bytes input) {
  constexpr size_t most_names = 32, longest_name = 200;
  const std::string_view all(reinterpret_cast<const char*>(input.data()), input.size());
  const size_t zero = std::min(all.find('\0'), all.size());
  std::set<std::string> made;
  for (size_t at = 0; at < zero && made.size() < most_names;) {
    const size_t end = std::min(all.find('\n', at), zero);
    const std::string name(all.substr(at, std::min(end - at, longest_name)));
    at = end + 1;
    if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos) continue;
    made.insert(name);
    written(name, input.subspan(std::min(zero + 1, input.size())));
  }
  if (const auto files = list_deepspeed_files(fuzz_folder(), model_file_names::one))
    wanted(files->model.size() <= made.size());
  (void)list_deepspeed_files(fuzz_folder(), model_file_names::both);
  (void)read_deepspeed_source(fuzz_folder());
  (void)checkpoint_index::open(fuzz_folder(), {});
  for (const auto& name : made) fs::remove(fuzz_folder() / name);
}

/// Reads the journal of an interrupted compression method, next to the 64 KiB that the method has written.
[[maybe_unused]] void fuzz_journal(bytes input) {
  const std::string purpose = "made up";
  const std::vector<std::byte> made(1U << 16);
  written("journal.json", input);
  written("weights.bin", made);
  const auto store = weight_store::open(fuzz_folder(), purpose);
  if (!store) return;  // the digest of the journal or of the bytes is missing
  const auto prepared = store->prepared();
  wanted(prepared.has_value());
  for (const auto& [tensor, weight] : prepared->weights)
    for (const auto& p : weight.parts) {
      std::vector<std::byte> out(p.bytes);
      wanted(prepared->read(weight, p.part, 0, out).has_value() || weight.parts.size() > 1);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TROUPE_FUZZED(std::as_bytes(std::span(data, size)));
  return 0;
}
