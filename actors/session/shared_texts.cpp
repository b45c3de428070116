// Shares the texts of a job of several processes: one process of each machine expands and encodes them, the others
// receive descriptors of the result. Owns which process reads and what is offered; any process that has the texts
// offers them in a later term.
#include <algorithm>
#include <cstring>
#include <utility>

#include "actors/processes/duplicate.hpp"
#include "actors/session/parts.hpp"
#include "core/byte_stream.hpp"
#include "data/told_stream.hpp"
#include "storage/memory/shared_memory.hpp"

namespace troupe::actors {
namespace {

using core::error_kind;

/// Numbers of offers; they follow those of shared_term.
constexpr uint32_t facts_offer = 1U << 30, first_text_offer = facts_offer + 1;

/// [source]: facts on the source's text; none: each process reads the source itself.
using facts_of_sources = std::vector<std::optional<std::string>>;

std::string with_length(const facts_of_sources& facts) {
  core::byte_writer out;
  out(facts);
  const std::string text = out.take();
  std::string length(sizeof(uint64_t), '\0');
  const uint64_t bytes = text.size();
  std::memcpy(length.data(), &bytes, sizeof bytes);
  return length + text;
}

}  // namespace

core::result<void> session::parts::give_texts() const {
  facts_of_sources facts;
  const auto& corpus = *data.loader.corpus;
  for (size_t i = 0; i < corpus.sources(); ++i) {
    facts.push_back(data::told_streams::facts_of(corpus.source(i)));
    if (!facts.back()) continue;
    TROUPE_ASSIGN(const auto descriptor, data::told_streams::descriptor_of(corpus.source(i)));
    processes.link->give(first_text_offer + static_cast<uint32_t>(i), cluster::own(descriptor));
  }
  const std::string text = with_length(facts);
  TROUPE_ASSIGN(auto memory, storage::shared_memory::create(text.size()));
  std::memcpy(memory.data(), text.data(), text.size());
  TROUPE_ASSIGN(const auto descriptor, duplicate(memory.descriptor()));
  processes.link->give(facts_offer, cluster::own(descriptor));
  return {};
}

core::result<void> session::parts::take_texts(opening_watch& watch) {
  if (modules.model != nullptr) return {};
  auto& link = *processes.link;
  const auto& who = *processes.members;
  const bool reads = who.first_place_of(who.machine()) == link.place();
  if (!reads && data.loader.corpus != nullptr) return {};
  TROUPE_TRY(watch.begin(reading_phase));
  facts_of_sources facts(sources().size());
  if (!reads) {
    TROUPE_ASSIGN(auto offered, link.take({facts_offer}));
    TROUPE_ASSIGN(const auto copy, duplicate(offered.at(facts_offer)->number()));
    TROUPE_ASSIGN(const auto memory, storage::shared_memory::open(copy));
    const std::string_view all(reinterpret_cast<const char*>(memory.data()), memory.bytes());
    uint64_t bytes = 0;
    core::byte_reader length(all.substr(0, sizeof bytes));
    length(bytes);
    core::byte_reader in(all.substr(sizeof bytes, bytes));
    in(facts);
    if (!in.is_whole() || facts.size() != sources().size())
      return core::fail(error_kind::mismatch, "processes: wanted what is known of " + std::to_string(sources().size()) +
                                                  " texts, got other bytes");
  }
  std::vector<std::shared_ptr<const data::token_stream>> streams;
  for (size_t i = 0; i < facts.size() && data.loader.corpus == nullptr; ++i) {
    if (!facts[i]) {
      TROUPE_ASSIGN(auto stream, open_source(sources()[i], watch));
      streams.push_back(std::move(stream));
      continue;
    }
    const auto number = first_text_offer + static_cast<uint32_t>(i);
    TROUPE_ASSIGN(auto offered, link.take({number}));
    TROUPE_ASSIGN(const auto copy, duplicate(offered.at(number)->number()));
    TROUPE_ASSIGN(auto stream, data::told_streams::stream_of(*facts[i], copy));
    streams.push_back(std::move(stream));
  }
  if (data.loader.corpus == nullptr) TROUPE_TRY(make_corpus(std::move(streams)));
  return reads && who.seats.size() > 1 ? give_texts() : core::result<void>();
}

}  // namespace troupe::actors
