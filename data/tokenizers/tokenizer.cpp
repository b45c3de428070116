// Implements the tokenizer of bytes, digests, and the comparison with a vocabulary.
#include "data/tokenizers/tokenizer.hpp"

#include <fmt/format.h>

namespace troupe::data {
namespace {

class byte_tokenizer final : public tokenizer {
 public:
  byte_tokenizer() { description_ = {.kind = "bytes", .vocab_size = 256, .digest = digest_of({"bytes"})}; }

  core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) override {
    out.reserve(out.size() + text.size());
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return {};
  }

  core::result<size_t> encode_part(const text_part& part, std::vector<uint32_t>& out) override {
    TROUPE_TRY(encode(part.text, out));
    return part.text.size();
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

core::result<void> check_vocabulary(const tokenizer_description& tokenizer, uint64_t vocab_size) {
  if (tokenizer.kind == "bytes" || tokenizer.vocab_size <= vocab_size) return {};
  return fail(error_kind::bad_input,
              fmt::format("the tokenizer has {} tokens, but the model's vocab_size is {}: it must be at least as large",
                          tokenizer.vocab_size, vocab_size));
}

core::result<void> check_bytes_as_ids(bool stream_is_bytes, std::string_view word, uint64_t vocab_size) {
  if (!stream_is_bytes || word == bytes_as_ids || vocab_size <= byte_vocabulary_size) return {};
  return core::refused(
      fmt::format("data.tokenizer: the text would be read as bytes, but the model's vocabulary has {} words, which are "
                  "not bytes: set it to the model's tokenizer, or to {} to use the value of each byte as its token",
                  vocab_size, bytes_as_ids));
}

bool same_vocabulary(const tokenizer_description& one, const tokenizer_description& other) {
  const auto is_of = [](const std::string& files, const std::string& digest) {
    return !files.empty() && files == digest;
  };
  return one.kind == other.kind &&
         (one.digest == other.digest || is_of(one.file_digest, other.digest) || is_of(other.file_digest, one.digest));
}

std::string digest_of(std::initializer_list<std::string_view> parts) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const auto part : parts)
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return fmt::format("{:016x}", hash);
}

}  // namespace troupe::data
