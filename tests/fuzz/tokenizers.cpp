// Defines an entry point of libFuzzer for folders of tokenizers: each is accepted or refused, and an accepted one
// encodes and decodes any text.
#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_file.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/places.hpp"

namespace {

using namespace troupe;
using namespace troupe::tests;

constexpr std::array names{"vocab.json", "merges.txt", "tokenizer.json", "t.model",
                           "t.bin.json", "t.gguf",     "tekken.json",    "qwen.tiktoken"};
constexpr std::array seeds{"0_vocab", "1_merges", "2_pipeline", "3_pieces", "4_tokens", "5_gguf", "6_tekken", "7_list"};
/// Names of the files that are a whole tokenizer by themselves.
constexpr std::array whole_files{"t.model", "t.gguf", "tekken.json", "qwen.tiktoken"};

bool is_whole(std::string_view name) { return std::ranges::find(whole_files, name) != whole_files.end(); }

/// Returns the valid files of the corpus, without the byte that selects one.
const std::array<std::string, names.size()>& sound_files() {
  static const auto files = [] {
    std::array<std::string, names.size()> out;
    for (size_t i = 0; i < out.size(); ++i) {
      std::ifstream in(
          std::string((std::string(troupe::places::source_dir) + "/tests/fuzz/corpus/tokenizer/")) + seeds[i],
          std::ios::binary);
      out[i].assign(std::istreambuf_iterator<char>(in), {});
      wanted(!out[i].empty());
      out[i].erase(0, 1);
      written(names[i], std::as_bytes(std::span(out[i])));
    }
    wanted(data::open_tokenizer(fuzz_folder()).has_value());
    for (const char* name : whole_files) wanted(data::open_tokenizer(fuzz_folder() / name).has_value());
    return out;
  }();
  return files;
}

/// Restores the valid file after each input: a refused vocabulary would prevent the reading of later inputs' merges.
struct one_of_a_sound_folder {
  one_of_a_sound_folder(size_t i, bytes content) : number(i), sound(sound_files()[i]) { written(names[i], content); }
  ~one_of_a_sound_folder() { written(names[number], std::as_bytes(std::span(sound))); }
  one_of_a_sound_folder(const one_of_a_sound_folder&) = delete;
  one_of_a_sound_folder& operator=(const one_of_a_sound_folder&) = delete;
  size_t number;
  const std::string& sound;
};

/// Reads a folder in which one file is the input and the others are valid; the first byte selects the file.
void fuzz_tokenizer(bytes input) {
  if (input.empty()) return;
  const size_t number = std::to_integer<size_t>(input.front()) % names.size();
  const std::string_view name = names[number];
  const one_of_a_sound_folder folder(number, input.subspan(1));
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  if (name == "t.bin.json") {
    (void)data::read_token_file(fuzz_folder() / "t.bin", 6);
    return;
  }
  for (const auto& place : {fuzz_folder(), fuzz_folder() / "vocab.json", fuzz_folder() / name})
    if (const auto v = data::read_vocabulary(place)) wanted(v->entries.size() <= data::max_vocabulary);
  auto opened = data::open_tokenizer(is_whole(name) ? fuzz_folder() / name : fuzz_folder());
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
