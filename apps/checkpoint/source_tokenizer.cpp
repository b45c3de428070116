#include "apps/checkpoint/source_tokenizer.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "apps/checkpoint/gguf_keys.hpp"
#include "apps/checkpoint/model_description.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

core::result<std::shared_ptr<data::tokenizer>> shared(core::result<std::unique_ptr<data::tokenizer>> t) {
  if (!t) return fail(t.error());
  return std::shared_ptr<data::tokenizer>(std::move(*t));
}

}  // namespace

core::result<std::shared_ptr<data::tokenizer>> tokenizer_of(const std::string& given, const described_checkpoint& from,
                                                            uint64_t vocabulary) {
  if (data::is_word_for_bytes(given)) return shared(data::make_byte_tokenizer());
  if (!given.empty()) return shared(data::open_tokenizer(given));
  // Tries the vocabulary of a GGUF file first, then the tokenizer next to the weights, then the run's. If there is no
  // other tokenizer, returns the error of the GGUF file's vocabulary.
  auto own = core::result<std::unique_ptr<data::tokenizer>>();
  if (const auto& files = from.source.files; !files.empty() && data::has_vocabulary(files.front().path)) {
    own = data::open_tokenizer(files.front().path);
    if (own) return shared(std::move(own));
  }
  std::error_code e;
  for (const char* name : {"tokenizer.model", "vocab.json", "tokenizer.json"})
    if (fs::exists(from.source.folder / name, e)) return shared(data::open_tokenizer(from.source.folder / name));
  if (const auto job = own_configuration(from.source)) return shared(data::open_tokenizer(job->data.tokenizer_path));
  if (!own)
    return core::refused(
        fmt::format("{}: give a tokenizer by --tokenizer, a path or '{}'", own.error().text, bytes_name));
  if (vocabulary <= 256) return shared(data::make_byte_tokenizer());
  return fail(error_kind::bad_input,
              fmt::format("'{}' has no tokenizer that is known here (tokenizer.model, tokenizer.json, or vocab.json "
                          "with merges.txt): give one by --tokenizer, a path or '{}'",
                          formats::shown_place(from.source), bytes_name));
}

}  // namespace troupe::apps
