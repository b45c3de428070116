#include "data/told_stream.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "core/byte_stream.hpp"
#include "data/scratch_file.hpp"

namespace troupe::data {
namespace {

struct told_segment {
  uint64_t first = 0, tokens = 0, begin = 0;
};
void fields(auto& f, told_segment& x) { f(x.first, x.tokens, x.begin); }

struct told_facts {
  std::string name;
  std::vector<told_segment> segments;
  std::vector<uint64_t> starts;
  std::optional<uint32_t> end_of_text;
  uint64_t documents = 0, size = 0, vocab_size = 0;
  bool tokens_are_bytes = true;
  uint8_t width = 1;
  std::optional<token_maker> maker;
  source_summary summary;
  bool selects_targets = false;
  std::vector<uint64_t> counted;
  std::optional<packed_layout> packed;
};
void fields(auto& f, told_facts& x) {
  f(x.name, x.segments, x.starts, x.end_of_text, x.documents, x.size, x.vocab_size, x.tokens_are_bytes, x.width,
    x.maker, x.summary, x.selects_targets, x.counted, x.packed);
}

}  // namespace

std::optional<std::string> told_streams::facts_of(const token_stream& x) {
  if (x.nameless_ == nullptr) return std::nullopt;
  told_facts out{x.files_.front().name(),
                 {},
                 x.starts_,
                 x.end_of_text_,
                 x.documents_,
                 x.size_,
                 x.vocab_size_,
                 x.tokens_are_bytes_,
                 x.width_,
                 x.maker_,
                 x.summary_,
                 x.selects_targets_,
                 x.counted_,
                 x.packed_};
  for (const auto& s : x.segments_) out.segments.push_back({s.first, s.tokens, s.begin});
  return core::as_bytes(out);
}

core::result<int> told_streams::descriptor_of(const token_stream& x) { return x.nameless_->duplicate(); }

core::result<std::shared_ptr<const token_stream>> told_streams::stream_of(std::string_view facts, int descriptor) {
  auto told = core::from_bytes<told_facts>(facts);
  if (!told || (told->width != 1 && told->width != 2 && told->width != 4)) {
    ::close(descriptor);
    return core::fail(
        core::error_kind::mismatch,
        fmt::format("processes: wanted the description of encoded text, got {} other bytes", facts.size()));
  }
  auto out = std::make_shared<token_stream>();
  auto kept = std::make_shared<scratch_file>(scratch_file::of(descriptor));
  TROUPE_ASSIGN(auto file, kept->content(told->name));
  for (const auto& s : told->segments) {
    if (s.begin > file.size() || s.tokens > (file.size() - s.begin) / told->width)
      return core::fail(core::error_kind::mismatch,
                        "processes: the file with the encoded text of " + told->name + " ends before its last segment");
    token_stream::segment mine;
    mine.first = s.first;
    mine.tokens = s.tokens;
    mine.begin = s.begin;
    out->segments_.push_back(mine);
  }
  out->files_.push_back(std::move(file));
  out->nameless_ = std::move(kept);
  out->starts_ = std::move(told->starts);
  out->end_of_text_ = told->end_of_text;
  out->documents_ = told->documents;
  out->size_ = told->size;
  out->vocab_size_ = told->vocab_size;
  out->tokens_are_bytes_ = told->tokens_are_bytes;
  out->width_ = told->width;
  out->maker_ = std::move(told->maker);
  out->summary_ = std::move(told->summary);
  out->selects_targets_ = told->selects_targets;
  out->counted_ = std::move(told->counted);
  out->packed_ = std::move(told->packed);
  return std::shared_ptr<const token_stream>(std::move(out));
}

}  // namespace troupe::data
