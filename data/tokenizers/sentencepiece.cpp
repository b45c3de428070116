// A tokenizer around the library's processor.
#include "data/tokenizers/sentencepiece.hpp"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "data/tokenizers/sentencepiece_file.hpp"

namespace troupe::data {
namespace {

using core::error_kind;
using core::fail;

class sentencepiece_tokenizer final : public tokenizer {
 public:
  core::result<void> load(std::string_view model) {
    const auto status = processor_.LoadFromSerializedProto({model.data(), model.size()});
    if (!status.ok())
      return fail(error_kind::bad_input, fmt::format("SentencePiece refuses the model: {}", status.error_message()));
    description_.kind = "sentencepiece";
    description_.vocab_size = static_cast<uint64_t>(processor_.GetPieceSize());
    const int eos = processor_.eos_id();
    if (eos >= 0 && processor_.IsControl(eos)) description_.end_of_text = static_cast<uint32_t>(eos);
    description_.digest = digest_of({model});
    return {};
  }

  core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) override {
    const auto status = processor_.Encode({text.data(), text.size()}, &ids_);
    if (!status.ok())
      return fail(error_kind::bad_input,
                  fmt::format("SentencePiece cannot encode the text: {}", status.error_message()));
    for (const int id : ids_) out.push_back(static_cast<uint32_t>(id));
    return {};
  }

  [[nodiscard]] std::string decode(std::span<const uint32_t> ids) const override {
    std::vector<int> known;
    for (const uint32_t id : ids)
      if (id < vocab_size()) known.push_back(static_cast<int>(id));
    std::string text;
    return processor_.Decode(known, &text).ok() ? text : std::string();
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
  std::vector<int> ids_;
};

}  // namespace

core::result<std::unique_ptr<tokenizer>> open_sentencepiece(const std::filesystem::path& path) {
  const auto file = core::source_file::open(path);
  if (!file) return fail(file.error());
  if (auto ok = core::refuse_lfs_pointer(*file); !ok) return fail(ok.error());
  if (file->size() > max_tokenizer_bytes)
    return fail(error_kind::limit, fmt::format("the tokenizer file '{}' has {} bytes, more than {}", path.string(),
                                               file->size(), max_tokenizer_bytes));
  const auto text = file->read_all(max_tokenizer_bytes);
  if (!text) return fail(text.error());
  const auto bytes = std::as_bytes(std::span(*text));
  if (const auto shape = check_sentencepiece_file(bytes); !shape) return fail(shape.error().in(path.string()));
  auto out = std::make_unique<sentencepiece_tokenizer>();
  if (auto ok = out->load({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); !ok)
    return fail(ok.error().in(path.string()));
  return out;
}

}  // namespace troupe::data
