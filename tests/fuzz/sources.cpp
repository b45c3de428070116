// Defines entry points of libFuzzer for text files of other programs: each reader accepts or refuses the bytes, and
// returns no more text than allowed.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/source_file.hpp"
#include "data/formats/indexed_pair.hpp"
#include "data/formats/objects.hpp"
#include "data/formats/rows.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace troupe;
using namespace troupe::tests;

constexpr uint64_t text_max = uint64_t{1} << 20;

/// Limit of rows, and of calls that return no row, after which reading stops.
constexpr uint64_t rows_max = 100'000;

void fuzz_rows(data::source_kind kind, const char* name, bytes input) {
  const auto file = core::source_file::open(written(name, input));
  if (!file) return;
  uint64_t left = text_max, given = 0, rows = 0;
  const auto ok = data::read_rows(kind, *file, "text", left,
                                  [&](std::optional<std::string_view> text, uint64_t byte) -> core::result<void> {
                                    given += text ? text->size() : 0;
                                    wanted(given <= text_max && byte <= input.size());
                                    if (++rows < rows_max) return {};
                                    return core::fail(core::error_kind::stopped, file->name());
                                  });
  wanted(ok || ok.error().text.find(file->name()) != std::string::npos);
}

void fuzz_objects(data::source_kind kind, const char* name, bytes input) {
  const auto file = core::source_file::open(written(name, input));
  if (!file) return;
  uint64_t left = text_max, rows = 0;
  const auto ok = data::read_objects(
      kind, *file, {"input_ids", "labels", "messages", "tools"}, left,
      [&](const nlohmann::ordered_json& row, const std::string&, uint64_t byte) -> core::result<void> {
        wanted(row.is_object() && byte <= input.size());
        if (++rows < rows_max) return {};
        return core::fail(core::error_kind::stopped, file->name());
      });
  wanted(left <= text_max && (ok || ok.error().text.find(file->name()) != std::string::npos));
}

[[maybe_unused]] void fuzz_parquet(bytes input) { fuzz_rows(data::source_kind::parquet, "input.parquet", input); }
[[maybe_unused]] void fuzz_arrow(bytes input) {
  fuzz_rows(data::source_kind::arrow, "input.arrow", input);
  fuzz_objects(data::source_kind::arrow, "input.arrow", input);
}
[[maybe_unused]] void fuzz_array(bytes input) { fuzz_objects(data::source_kind::array, "input.npy", input); }
[[maybe_unused]] void fuzz_tar(bytes input) { fuzz_rows(data::source_kind::tar, "input.tar", input); }

/// Reads an index of Megatron's format, next to 4 KiB of tokens.
[[maybe_unused]] void fuzz_indexed(bytes input) {
  static const std::vector<std::byte> tokens(4096);
  const auto content = core::source_file::open(written("input.bin", tokens));
  if (!content) return;
  const auto pair = data::indexed_pair::open(written("input.idx", input), *content, true);
  if (!pair) return;
  // Empty documents contain no sequence.
  wanted(pair->documents() <= input.size() && pair->starts().size() <= pair->documents());
  uint64_t given = 0;
  // Sequences may share tokens, so an index of a few bytes can refer to many tokens.
  const auto ok = pair->give(4, uint64_t{1} << 31, [&](std::span<const std::byte> block) -> core::result<void> {
    given += block.size();
    if (given < 64 * text_max) return {};
    return core::fail(core::error_kind::stopped, "enough");
  });
  wanted(!ok || given == 4 * pair->tokens());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TROUPE_FUZZED(std::as_bytes(std::span(data, size)));
  return 0;
}
