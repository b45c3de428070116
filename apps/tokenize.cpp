// Writes aside, renames when all is there: an error or an interrupt leaves what was there before.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "apps/base/data.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/interrupts.hpp"
#include "checkpoint/files/atomic_file.hpp"
#include "core/clock.hpp"
#include "data/documents.hpp"
#include "data/expand.hpp"
#include "data/token_file.hpp"
#include "data/token_stream.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;

/// A line a second for a log, a line that is written over for a terminal.
class display {
 public:
  explicit display(verbosity said) : quiet_(said == verbosity::quiet), terminal_(::isatty(STDERR_FILENO) != 0) {}

  void file(size_t number, size_t of) { place_ = of > 1 ? fmt::format("{}/{} ", number, of) : ""; }
  void show(const data::reading_progress& p) {
    const int64_t now = core::now_ns();
    if (quiet_ || now < next_) return;
    next_ = now + (terminal_ ? 100'000'000 : 1'000'000'000);
    const double percent = p.bytes > 0 ? 100.0 * double(p.bytes_done) / double(p.bytes) : 100.0;
    const auto line =
        fmt::format("{}{} {:.0f} %, {} tokens, {:.2f} M tokens/s", place_, fs::path(p.file).filename().string(),
                    percent, p.tokens, double(p.tokens) / seconds() / 1e6);
    std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", line.c_str());
    std::fflush(stderr);
    drawn_ = terminal_;
  }
  void clear() {
    if (drawn_) std::fprintf(stderr, "\r\x1b[K");
    drawn_ = false;
  }
  [[nodiscard]] double seconds() const { return double(core::now_ns() - begin_) / 1e9; }

 private:
  bool quiet_, terminal_;
  bool drawn_ = false;
  std::string place_;
  int64_t begin_ = core::now_ns(), next_ = begin_ + 200'000'000;
};

core::result<std::vector<fs::path>> all_files(const std::vector<std::string>& inputs) {
  std::vector<fs::path> out;
  for (const auto& input : inputs) {
    auto files = data::source_files(input);
    if (!files) return fail(files.error());
    for (auto& f : *files) {
      if (data::kind_of(f) == data::source_kind::tokens)
        return fail(error_kind::bad_input, fmt::format("'{}' holds tokens already: wanted text", f.string()));
      out.push_back(std::move(f));
    }
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

core::result<data::token_file> write(const tokenize_arguments& a, display& show, const interrupts& stop) {
  const fs::path path = a.tokenizer == "bytes" ? fs::path() : fs::absolute(a.tokenizer).lexically_normal();
  auto tokenizer = data::open_tokenizer(path);
  if (!tokenizer) return fail(tokenizer.error());
  data::token_file made;
  made.tokenizer = (*tokenizer)->description();
  made.tokenizer_path = path.string();
  const auto width = width_for(a, made.tokenizer.vocab_size);
  if (!width) return fail(width.error());
  made.width = *width;
  const fs::path output = a.output;
  if (data::kind_of(output) != data::source_kind::tokens || data::is_packed(output))
    return fail(error_kind::bad_input, fmt::format("--output: wanted a name that ends in .bin, got '{}'", a.output));
  const auto files = all_files(a.inputs);
  if (!files) return fail(files.error());

  auto bin = checkpoint::atomic_file::create(output);
  if (!bin) return fail(bin.error());
  data::document_encoder encoder(
      **tokenizer, static_cast<uint8_t>(made.width), made.tokenizer.vocab_size,
      [&](std::span<const std::byte> bytes) { return bin->write(bytes); },
      [&](const data::reading_progress& p) {
        show.show(p);
        return !stop.requested();
      });
  uint64_t budget = data::source_options{}.max_bytes;
  for (size_t i = 0; i < files->size(); ++i) {
    const auto& f = (*files)[i];
    show.file(i + 1, files->size());
    std::error_code ec;
    const auto scratch = fs::temp_directory_path(ec);
    data::scratch_file expanded;
    const auto text = data::open_expanded(f, budget, expanded, ec ? fs::path(".") : scratch,
                                          [&](uint64_t, uint64_t) { return !stop.requested(); });
    if (!text) return fail(text.error());
    if (data::is_packed(f)) budget -= text->size();
    if (auto ok = encoder.add(f, *text, a.text_key, budget); !ok) return fail(ok.error());
  }
  if (auto ok = encoder.flush(); !ok) return fail(ok.error());
  made.tokens = encoder.tokens();
  made.documents = encoder.documents();
  if (made.tokens == 0) return fail(error_kind::bad_input, "the inputs hold no text: nothing to write");
  if (auto ok = bin->sync(); !ok) return fail(ok.error());
  // From here on no description may stand beside a file that it does not describe.
  std::error_code ec;
  fs::remove(data::description_path(output), ec);
  if (auto ok = bin->commit(); !ok) return fail(ok.error());
  if (auto ok = checkpoint::write_file_atomically(data::description_path(output), data::as_text(made)); !ok)
    return fail(ok.error());
  return made;
}

}  // namespace

int tokenize(const tokenize_arguments& a) {
  const interrupts stop;
  display show(a.verbosity);
  const auto made = write(a, show, stop);
  show.clear();
  if (!made) return failed(made.error());
  if (a.verbosity != verbosity::quiet)
    std::printf(
        "%s", fmt::format("{}: {} tokens of {} document{}, {}, {:.1f} s, {:.2f} M tokens/s\n", a.output, made->tokens,
                          made->documents, made->documents == 1 ? "" : "s", data::name_of(made->width), show.seconds(),
                          double(made->tokens) / show.seconds() / 1e6)
                  .c_str());
  return 0;
}

}  // namespace troupe::apps
