// Folders of tokenizers of libFuzzer's making: opened or refused, and what is opened encodes and decodes any text.
#include <array>
#include <string_view>
#include <vector>

#include "data/token_file.hpp"
#include "data/tokenizer.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace troupe;
using namespace troupe::tests;

constexpr std::array names{"vocab.json", "merges.txt", "tokenizer.json", "t.model", "t.bin.json"};

/// One file of a folder; the first byte says which, the others are missing or earlier inputs.
void fuzz_tokenizer(bytes input) {
  if (input.empty()) return;
  const char* name = names[std::to_integer<size_t>(input.front()) % names.size()];
  const auto path = written(name, input.subspan(1));
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  if (std::string_view(name) == "t.bin.json") {
    (void)data::read_token_file(fuzz_folder() / "t.bin", 6);
    return;
  }
  auto opened = data::open_tokenizer(std::string_view(name) == "t.model" ? path : fuzz_folder());
  if (!opened) return;
  std::vector<uint32_t> ids;
  if (!(*opened)->encode(text, ids)) return;
  for (const uint32_t id : ids) wanted(id < (*opened)->vocab_size());
  (void)(*opened)->decode(ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_tokenizer(std::as_bytes(std::span(data, size)));
  return 0;
}
