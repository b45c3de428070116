// Presents a tokenizer that another program stores in one file as the folder that transformers would have for it: the
// path `FILE/tokenizer.json` names a file that is made from FILE. Owns the kinds of such files, and the names of the
// made files; leaves the contents to the source of each kind.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Returns the file that contains the whole tokenizer at `path`: `path` itself if it is such a file (a GGUF file, a
/// list of tiktoken, Mistral's tekken.json); or, if `path` is a folder without a tokenizer of another kind, the only
/// list of tiktoken or tekken.json in it. Empty if `path` is anything else.
std::filesystem::path tokenizer_file_at(const std::filesystem::path& path);

/// True if `path` is a GGUF file with a vocabulary.
bool is_gguf_with_words(const std::filesystem::path& path);

/// True if `folder` has a tokenizer.model that is a model of SentencePiece, not a list of tiktoken.
bool has_piece_model(const std::filesystem::path& folder);

/// True if `file`, which tokenizer_file_at() returned, has a vocabulary; a GGUF file may have none.
bool has_words_in(const std::filesystem::path& file);

/// Returns the path below `file`, which tokenizer_file_at() returned, of the made file that has the vocabulary:
/// tokenizer.model for SentencePiece's kind, else tokenizer.json. Empty for the vocabulary of bytes. Refused: a file
/// without a vocabulary, and a kind of vocabulary that is not known.
core::result<std::filesystem::path> made_vocabulary_in(const std::filesystem::path& file);

/// Returns the JSON object of the made file `path`, such as FILE/tokenizer.json; null if `path` is not below such a
/// FILE, or FILE has nothing that the made file would contain. For lists of words (tiktoken's, Mistral's), files other
/// than tokenizer.json are those next to FILE.
core::result<nlohmann::json> made_json(const std::filesystem::path& path);

/// While an object exists, its thread keeps the files that made_json() returns, so that several readers of a large file
/// make it once.
class kept_files {
 public:
  kept_files();
  ~kept_files();
  kept_files(const kept_files&) = delete;
  kept_files& operator=(const kept_files&) = delete;

  struct contents;

 private:
  std::unique_ptr<contents> own_;  ///< null: an object of this thread that was made earlier keeps the files
};

/// Returns the bytes of the made file `path` that is not JSON, FILE/tokenizer.model; nullopt if `path` is not below a
/// FILE that has one.
core::result<std::optional<std::string>> made_bytes(const std::filesystem::path& path);

/// A file of a tokenizer's folder.
struct made_file {
  std::string name, text;
};

/// Returns the files of transformers that are made from `file`, a GGUF file with a vocabulary: tokenizer.json,
/// tokenizer_config.json with chat templates, and generation_config.json. Refused: a vocabulary that open_tokenizer()
/// refuses by its name, and one that no tokenizer.json states exactly.
core::result<std::vector<made_file>> made_files(const std::filesystem::path& file);

}  // namespace troupe::data
