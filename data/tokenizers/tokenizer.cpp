// Bytes, and which kind a path names.
#include "data/tokenizers/tokenizer.hpp"

#include <fmt/format.h>

#include "data/tokenizers/byte_pair.hpp"
#include "data/tokenizers/sentencepiece.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;

class byte_tokenizer final : public tokenizer {
 public:
  byte_tokenizer() { description_ = {.kind = "bytes", .vocab_size = 256, .digest = digest_of({"bytes"})}; }

  core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) override {
    out.reserve(out.size() + text.size());
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return {};
  }

  [[nodiscard]] std::string decode(std::span<const uint32_t> ids) const override {
    std::string out;
    for (const uint32_t id : ids)
      if (id < 256) out.push_back(static_cast<char>(id));
    return out;
  }
};

}  // namespace

std::unique_ptr<tokenizer> make_byte_tokenizer() { return std::make_unique<byte_tokenizer>(); }

core::result<std::unique_ptr<tokenizer>> open_tokenizer(const fs::path& path) {
  if (path.empty()) return make_byte_tokenizer();
  std::error_code ec;
  const auto status = fs::status(path, ec);
  if (!fs::exists(status))
    return fail(error_kind::bad_input,
                fmt::format("cannot read the tokenizer '{}': No such file or directory", path.string()));
  if (fs::is_directory(status)) return open_byte_pair(path / "vocab.json", path / "merges.txt");
  if (path.filename() == "vocab.json") return open_byte_pair(path, path.parent_path() / "merges.txt");
  if (path.extension() == ".model") return open_sentencepiece(path);
  return fail(
      error_kind::bad_input,
      fmt::format("the tokenizer '{}' is of no known kind: wanted a SentencePiece .model file, or a folder with "
                  "GPT-2's vocab.json and merges.txt",
                  path.string()));
}

core::result<void> check_vocabulary(const tokenizer_description& tokenizer, uint64_t vocab_size) {
  if (tokenizer.kind == "bytes" || tokenizer.vocab_size <= vocab_size) return {};
  return fail(error_kind::bad_input,
              fmt::format("the tokenizer has {} tokens, the model's vocab_size is {}: wanted at least as many",
                          tokenizer.vocab_size, vocab_size));
}

std::string digest_of(std::initializer_list<std::string_view> parts) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const auto part : parts)
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return fmt::format("{:016x}", hash);
}

}  // namespace troupe::data
