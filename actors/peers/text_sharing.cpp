#include "actors/peers/text_sharing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "actors/processes/duplicate.hpp"
#include "core/byte_stream.hpp"
#include "data/told_stream.hpp"
#include "storage/memory/shared_memory.hpp"

namespace troupe::actors {
namespace {

/// Numbers under which a process offers texts to the processes of its machine, above the numbers that shared_term uses.
constexpr uint32_t facts_offer = 1U << 30, first_text_offer = facts_offer + 1;

/// [source]: description of the source's encoded text; none: each process reads the source itself.
using facts_of_sources = std::vector<std::optional<std::string>>;

/// Returns the encoded facts, preceded by their length.
std::string with_length(const facts_of_sources& facts) { return core::as_bytes(core::as_bytes(facts)); }

core::result<void> give_texts(const training_data& data, cluster::process& link) {
  facts_of_sources facts;
  const auto& corpus = *data.corpus();
  for (size_t i = 0; i < corpus.streams(); ++i) {
    facts.push_back(data::told_streams::facts_of(corpus.stream(i)));
    if (!facts.back()) continue;
    TROUPE_ASSIGN(const auto descriptor, data::told_streams::descriptor_of(corpus.stream(i)));
    TROUPE_TRY(link.give(first_text_offer + static_cast<uint32_t>(i), cluster::own(descriptor)));
  }
  const std::string text = with_length(facts);
  TROUPE_ASSIGN(auto memory, storage::shared_memory::create(text.size()));
  std::memcpy(memory.data(), text.data(), text.size());
  TROUPE_ASSIGN(const auto descriptor, duplicate(memory.descriptor()));
  TROUPE_TRY(link.give(facts_offer, cluster::own(descriptor)));
  return {};
}

}  // namespace

core::result<void> share_texts(training_data& data, cluster::process& link, const term_members& who,
                               opening_watch& watch) {
  const bool reads = who.first_place_of(who.machine()) == link.place();
  if (!reads && data.corpus() != nullptr) return {};
  TROUPE_TRY(watch.begin(reading_phase));
  facts_of_sources facts(data.num_texts());
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
    if (!in.is_whole() || facts.size() != data.num_texts())
      return core::fail(error_kind::mismatch,
                        fmt::format("processes: wanted what is known of {} texts, got other bytes", data.num_texts()));
  }
  std::vector<std::shared_ptr<const data::token_stream>> streams;
  for (size_t i = 0; i < facts.size() && data.corpus() == nullptr; ++i) {
    if (!facts[i]) {
      TROUPE_ASSIGN(auto stream, data.open_text(i, watch));
      streams.push_back(std::move(stream));
      continue;
    }
    const auto number = first_text_offer + static_cast<uint32_t>(i);
    TROUPE_ASSIGN(auto offered, link.take({number}));
    TROUPE_ASSIGN(const auto copy, duplicate(offered.at(number)->number()));
    TROUPE_ASSIGN(auto stream, data::told_streams::stream_of(*facts[i], copy));
    streams.push_back(std::move(stream));
  }
  if (data.corpus() == nullptr) TROUPE_TRY(data.take_streams(std::move(streams)));
  return reads && who.seats.size() > 1 ? give_texts(data, link) : core::result<void>();
}

}  // namespace troupe::actors
