// Implements `troupe data tokenize`. Writes to a temporary file and renames it when it is complete, so that an error or
// an interrupt leaves the previous file unchanged.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <limits>

#include "apps/base/data.hpp"
#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/interrupts.hpp"
#include "apps/base/terminal.hpp"
#include "core/clock.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"
#include "data/documents.hpp"
#include "data/expand.hpp"
#include "data/source_summary.hpp"
#include "data/token_file.hpp"
#include "data/token_stream.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Shows the progress: one line per second in a log, one rewritten line on a terminal.
class display {
 public:
  explicit display(verbosity said) : quiet_(said == verbosity::quiet), terminal_(rewrites_lines(STDERR_FILENO)) {}

  void file(size_t number, size_t of) { place_ = of > 1 ? fmt::format("{}/{} ", number, of) : ""; }
  void show(const data::reading_progress& p) {
    const int64_t now = core::now_ns();
    if (quiet_ || now < next_) return;
    next_ = now + (terminal_ ? 100'000'000 : 1'000'000'000);
    const double percent = p.bytes > 0 ? 100.0 * double(p.bytes_done) / double(p.bytes) : 100.0;
    const auto line =
        fmt::format("{}{} {:.0f} %, {} tokens, {:.2f} M tokens/s", place_, fs::path(p.file).filename().string(),
                    percent, p.tokens, double(p.tokens) / seconds() / 1e6);
    if (terminal_)
      rewrite_line(stderr, STDERR_FILENO, line);
    else
      print_error_line(line);
    drawn_ = terminal_;
  }
  void clear() {
    if (drawn_) rewrite_line(stderr, STDERR_FILENO, "");
    drawn_ = false;
  }
  [[nodiscard]] double seconds() const { return double(core::now_ns() - begin_) / 1e9; }

 private:
  bool quiet_, terminal_;
  bool drawn_ = false;
  std::string place_;
  int64_t begin_ = core::now_ns(), next_ = begin_ + 200'000'000;
};

/// One input argument of the command, and the text files that it names.
struct input {
  std::string name;
  data::source_listing listed;
};

core::result<std::vector<input>> all_inputs(const std::vector<std::string>& names) {
  std::vector<input> out;
  for (const auto& name : names) {
    TROUPE_ASSIGN(auto listed, data::source_files(name));
    for (const auto& f : listed.files)
      if (data::kind_of(f) == data::source_kind::tokens)
        return fail(error_kind::bad_input, fmt::format("'{}' contains tokens, wanted text", f.string()));
    out.push_back({name, std::move(listed)});
  }
  return out;
}

core::result<data::bin_width> width_for(const tokenize_arguments& a, uint64_t vocab_size) {
  if (a.dtype.empty()) return vocab_size <= uint64_t{1} << 16 ? data::bin_width::u16 : data::bin_width::u32;
  const auto width = data::bin_width_from(a.dtype);
  if (!width) return fail(error_kind::bad_input, fmt::format("--dtype: wanted uint16 or uint32, got '{}'", a.dtype));
  if (*width == data::bin_width::u16 && vocab_size > uint64_t{1} << 16)
    return fail(error_kind::bad_input,
                fmt::format("--dtype: uint16 holds 65536 tokens, the tokenizer has {}: wanted uint32", vocab_size));
  return *width;
}

struct written_tokens {
  data::token_file file;
  std::vector<std::string> sources;  ///< a sentence that describes each input, in the order of the inputs
};

core::result<written_tokens> write(const tokenize_arguments& a, display& show, const interrupts& stop) {
  const fs::path path =
      data::is_word_for_bytes(a.tokenizer) ? fs::path() : fs::absolute(a.tokenizer).lexically_normal();
  TROUPE_ASSIGN(auto tokenizer, data::open_tokenizer(path));
  data::token_file made;
  made.tokenizer = tokenizer->description();
  made.tokenizer_path = path.string();
  TROUPE_ASSIGN(const auto width, width_for(a, made.tokenizer.vocab_size));
  made.width = width;
  const fs::path output = a.output;
  if (data::kind_of(output) != data::source_kind::tokens || data::is_packed(output))
    return fail(error_kind::bad_input, fmt::format("--output: wanted a name that ends in .bin, got '{}'", a.output));
  const auto description = data::description_path(output);
  std::error_code ec;
  if (fs::is_directory(description, ec))
    return fail(error_kind::bad_input, fmt::format("--output: wanted a name whose description can be written to '{}', "
                                                   "got a folder there; remove it, or use another name",
                                                   description.string()));
  TROUPE_ASSIGN(const auto inputs, all_inputs(a.inputs));
  const auto has_key = [](const fs::path& f) { return data::has_keys(data::kind_of(f)); };
  const auto has_keys = [&](const input& in) { return std::ranges::any_of(in.listed.files, has_key); };
  if (a.names_text && std::ranges::none_of(inputs, has_keys))
    return fail(
        error_kind::bad_input,
        fmt::format("--text-key would do nothing here: it is for JSON lines, Parquet, Arrow, .tar and .mds, and "
                    "'{}' is plain text",
                    core::shown(inputs.front().name)));
  size_t files = 0, number = 0;
  for (const auto& in : inputs) files += in.listed.files.size();

  TROUPE_ASSIGN(auto bin, storage::atomic_file::create(output));
  data::document_encoder encoder(
      *tokenizer, static_cast<uint8_t>(made.width), made.tokenizer.vocab_size,
      [&](std::span<const std::byte> bytes) { return bin.write(bytes); },
      [&](const data::reading_progress& p) {
        show.show(p);
        return !stop.requested();
      });
  uint64_t budget = a.max_bytes;
  std::vector<std::string> sources;
  for (const auto& in : inputs) {
    data::source_summary read;
    read.ends_documents = made.tokenizer.end_of_text.has_value();
    data::name_left_out(read, in.name, in.listed.left_out);
    const uint64_t documents = encoder.documents(), tokens = encoder.tokens();
    for (const auto& f : in.listed.files) {
      show.file(++number, files);
      const auto scratch = fs::temp_directory_path(ec);
      data::scratch_file expanded;
      const uint64_t most = data::is_packed(f) ? budget : std::numeric_limits<uint64_t>::max();
      TROUPE_ASSIGN(const auto text, data::open_expanded(f, most, expanded, ec ? fs::path(".") : scratch,
                                                         [&](uint64_t, uint64_t) { return !stop.requested(); }));
      if (data::is_packed(f)) budget -= text.size();
      data::count_file(read, in.name, f, text.size());
      TROUPE_TRY(encoder.add(f, text, a.text_key, budget));
    }
    read.documents = encoder.documents() - documents;
    read.tokens = encoder.tokens() - tokens;
    sources.push_back(data::sentence_of(read, in.name));
  }
  TROUPE_TRY(encoder.flush());
  made.tokens = encoder.tokens();
  made.documents = encoder.documents();
  if (made.tokens == 0) return fail(error_kind::bad_input, "the inputs hold no text: nothing to write");
  TROUPE_TRY(bin.sync());
  // Removes the old description first, so that no description exists next to a file that it does not describe.
  fs::remove(description, ec);
  if (ec) return core::fail(core::path_error("replace", description, ec.value()));
  TROUPE_TRY(bin.commit());
  TROUPE_TRY(storage::write_file_atomically(description, data::as_text(made)));
  return written_tokens{std::move(made), std::move(sources)};
}

}  // namespace

int tokenize(const tokenize_arguments& a) {
  const interrupts stop;
  display show(a.verbosity);
  const auto made = write(a, show, stop);
  show.clear();
  if (!made) return failed(made.error());
  if (a.verbosity == verbosity::quiet) return 0;
  for (const auto& source : made->sources) std::printf("%s\n", source.c_str());
  const auto& file = made->file;
  std::printf("%s", fmt::format("{}: {} tokens of {} document{}, {}, {:.1f} s, {:.2f} M tokens/s\n", a.output,
                                file.tokens, file.documents, file.documents == 1 ? "" : "s", data::name_of(file.width),
                                show.seconds(), double(file.tokens) / show.seconds() / 1e6)
                        .c_str());
  return 0;
}

}  // namespace troupe::apps
