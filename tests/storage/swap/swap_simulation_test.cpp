// Simulates swapping on a disk that randomly delays, reorders, shortens, fails, tears and loses transfers, and can be
// full. In every case a read returns the bytes that were written last, or an error that names file and offset.
#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "storage/memory/huge_memory.hpp"
#include "storage/swap/swap_queue.hpp"
#include "tests/storage/queues.hpp"

BOOST_AUTO_TEST_SUITE(swap_simulation)

using namespace troupe;
using namespace troupe::storage;

namespace {

constexpr uint64_t page = swap_page_bytes;
constexpr uint64_t file_pages = 48;
constexpr uint64_t slots = 6;        // number of requests in flight
constexpr uint64_t slot_pages = 8;   // number of pages of the longest request
constexpr unsigned operations = 80;  // number of operations of one seed

struct tally {
  uint64_t requests = 0, failed = 0, retries = 0, misses = 0, faults = 0;
  std::string trace;
};

class life {
 public:
  explicit life(uint64_t seed) : seed_(seed), random_(seed), content_(file_pages * page) {
    disk_.seed = seed;
    disk_.jitter_ns = 1'000'000;
    disk_.busy = odds(0.3);
    disk_.cut = odds(0.3);
    if (seed % 4 != 0) {  // a quarter of the disks only delay, interrupt and shorten
      disk_.fail = odds(0.2);
      disk_.torn = odds(0.2);
      disk_.lost = odds(0.2);
      if (seed % 5 == 0) disk_.free_bytes = draw(file_pages) * page;
      flips_ = seed % 7 == 0;
    }
    full_ = disk_.free_bytes < file_pages * page;
    auto on = *file::in_memory("sim");
    if (!full_) BOOST_REQUIRE(on.truncate(file_pages * page));
    file_ = std::make_shared<storage::swap_file>(std::move(on), file_pages * page, true);
    swap_queue_options options;
    options.depth = static_cast<unsigned>(1 + draw(8));
    options.block_bytes = (1 + draw(4)) * page;
    options.single_submit = draw(2) == 0;
    options.overlap_events = draw(4) != 0;
    options.make = [this](const io_queue_options& below) -> core::result<std::unique_ptr<storage::io_queue>> {
      auto made = storage::modelled_queue::open(below, disk_);
      BOOST_REQUIRE(made);
      model_ = made->get();
      return std::move(*made);
    };
    queue_ = *storage::swap_queue::open(options);
  }

  tally live() {
    for (unsigned i = 0; i < operations; ++i) {
      switch (draw(4)) {
        case 0:
          model_->advance(static_cast<int64_t>(draw(300'000)));
          queue_->poll(over_);
          break;
        case 1:
          queue_->wait(over_);
          break;
        default:
          ask();
      }
      look();
      if (flips_ && draw(10) == 0) flip();
      if (seed_ % 4 != 0 && draw(100) == 0) queue_->cancel_all();  // reads of pages whose write was cancelled may fail
    }
    if (draw(4) != 0) {
      queue_->drain(over_);
      look();
      require(asked_.empty(), "requests that never came back");
    }
    const auto& counted = queue_->counters();
    tally_.retries = counted.retries;
    tally_.misses = counted.digest_misses;
    tally_.faults = model_->faults();
    queue_.reset();  // in a quarter of the seeds, requests are still running
    for (const auto& [token, r] : asked_) lose(r);
    for (uint64_t p = 0; p < file_pages; ++p) {
      std::vector<std::byte> got(page);
      if (file_->read(p * page, got)) check_page(p, got);
    }
    return tally_;
  }

 private:
  struct asked {
    io_kind kind;
    uint64_t first, pages, slot;
  };

  uint64_t draw(uint64_t below) { return random_() % below; }
  double odds(double most) { return draw(2) == 0 ? 0 : most * static_cast<double>(draw(1000)) / 1000; }
  void require(bool fine, const std::string& what) const {
    if (!fine) BOOST_FAIL("seed " << seed_ << ": " << what << "\n  replay: TROUPE_SEED=" << seed_);
  }
  static std::span<std::byte> memory_of(uint64_t slot) {
    static const auto memory = *huge_memory::allocate(slots * slot_pages * page);
    return std::span(memory.data() + slot * slot_pages * page, slot_pages * page);
  }

  // Submits a read or a write of random pages that no other request uses, in one or two parts.
  void ask() {
    std::set<uint64_t> taken;
    for (const auto& [token, r] : asked_) taken.insert(r.slot);
    if (taken.size() == slots) return;
    asked r{draw(2) == 0 ? io_kind::read : io_kind::write, draw(file_pages), 1 + draw(slot_pages), 0};
    while (taken.count(r.slot) > 0) ++r.slot;
    r.pages = std::min(r.pages, file_pages - r.first);
    for (const auto& [token, other] : asked_)
      if (r.first < other.first + other.pages && other.first < r.first + r.pages) return;
    const auto memory = memory_of(r.slot).first(r.pages * page);
    const uint64_t cut = draw(r.pages);
    swap_request request{r.kind, {}, ++token_};
    if (cut > 0) request.parts.push_back({file_, r.first * page, memory.first(cut * page)});
    request.parts.push_back({file_, (r.first + cut) * page, memory.subspan(cut * page)});
    tests::fill(memory, random_());
    if (r.kind == io_kind::write) {
      std::copy(memory.begin(), memory.end(), content_.begin() + static_cast<long>(r.first * page));
      for (uint64_t p = r.first; p < r.first + r.pages; ++p) flipped_.erase(p);
    }
    BOOST_REQUIRE(queue_->submit(std::move(request)));
    asked_[token_] = r;
  }

  void look() {
    for (const auto& c : over_) {
      const auto found = asked_.find(c.token);
      require(found != asked_.end(), "a completion that nobody waited for");
      const asked r = found->second;
      asked_.erase(found);
      ++tally_.requests;
      tally_.trace += fmt::format("{}{}", c.token, c.error ? "e" : "w");
      if (c.error) {
        ++tally_.failed;
        check_error(r, *c.error);
        continue;
      }
      require(c.bytes == r.pages * page, "fewer bytes without an error");
      if (r.kind == io_kind::read)
        for (uint64_t p = 0; p < r.pages; ++p) check_page(r.first + p, memory_of(r.slot).subspan(p * page, page));
    }
    over_.clear();
  }

  void check_page(uint64_t p, std::span<const std::byte> got) const {
    require(std::memcmp(got.data(), content_.data() + p * page, page) == 0, fmt::format("wrong bytes of page {}", p));
    require(flipped_.count(p) == 0, "a flipped byte was not found");
  }

  void check_error(const asked& r, const core::error& error) const {
    const auto at = error.text.find(" at ");
    require(error.text.rfind("sim: ", 0) == 0 && at != std::string::npos, "no file in: " + error.text);
    const uint64_t offset = std::stoull(error.text.substr(at + 4));
    require(offset >= r.first * page && offset < (r.first + r.pages) * page, "not where it was: " + error.text);
    if (error.kind == core::error_kind::stopped) return;
    require(error.kind == core::error_kind::io || (full_ && error.kind == core::error_kind::no_space),
            "another kind: " + error.text);
    require(seed_ % 4 != 0, "the disk did nothing wrong: " + error.text);
  }

  // Rewrites the pages of a write that was running when its queue was destroyed, because their contents are undefined.
  void lose(const asked& r) {
    if (r.kind != io_kind::write) return;
    for (uint64_t p = r.first; p < r.first + r.pages; ++p)
      BOOST_REQUIRE(file_->write(p * page, std::span(content_).subspan(p * page, page)));
  }

  void flip() {
    const uint64_t p = draw(file_pages);
    const auto size = file_->handle().size_bytes();
    if (!size || *size < (p + 1) * page || flipped_.count(p) > 0) return;
    for (const auto& [token, r] : asked_)
      if (p >= r.first && p < r.first + r.pages) return;
    std::byte one{};
    const uint64_t at = p * page + draw(page);
    BOOST_REQUIRE(file_->handle().read_at(at, {&one, 1}));
    one ^= std::byte{1};
    BOOST_REQUIRE(file_->handle().write_at(at, {&one, 1}));
    flipped_.insert(p);
  }

  uint64_t seed_;
  std::mt19937_64 random_;
  disk_model disk_;
  bool full_ = false, flips_ = false;
  std::vector<std::byte> content_;  // the bytes written last, whether or not their writes succeeded
  std::set<uint64_t> flipped_;
  std::shared_ptr<storage::swap_file> file_;
  storage::modelled_queue* model_ = nullptr;
  std::unique_ptr<storage::swap_queue> queue_;
  uint64_t token_ = 0;
  std::map<uint64_t, asked> asked_;
  std::vector<swap_completion> over_;
  tally tally_;
};

uint64_t number(const char* variable, uint64_t usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

}  // namespace

BOOST_AUTO_TEST_CASE(five_hundred_disks_give_the_right_bytes_or_a_named_error) {
  tally all;
  const uint64_t alone = number("TROUPE_SEED", 0);
  const uint64_t first = alone > 0 ? alone : 1, last = alone > 0 ? alone : number("TROUPE_SEEDS", 500);
  for (uint64_t seed = first; seed <= last; ++seed) {
    const auto told = life(seed).live();
    all.requests += told.requests;
    all.failed += told.failed;
    all.retries += told.retries;
    all.misses += told.misses;
    all.faults += told.faults;
  }
  BOOST_TEST_MESSAGE(all.requests << " requests, " << all.failed << " failed, " << all.retries << " retries, "
                                  << all.misses << " digests that differed, " << all.faults << " faults");
  if (last - first < 100) return;
  // Disks must fail often, but most requests must succeed, so that the test covers both.
  BOOST_TEST(all.faults > 1000U);
  BOOST_TEST(all.misses > 100U);
  BOOST_TEST(all.retries > all.misses / 2);
  BOOST_TEST(all.failed > 100U);
  BOOST_TEST(all.failed < all.requests / 2);
}

BOOST_AUTO_TEST_CASE(a_seed_gives_the_same_run_every_time) {
  std::set<std::string> traces;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    const auto once = life(seed).live(), again = life(seed).live();
    BOOST_TEST(once.trace == again.trace);
    BOOST_TEST(once.faults == again.faults);
    traces.insert(once.trace);
  }
  BOOST_TEST(traces.size() == 12U);
}

BOOST_AUTO_TEST_SUITE_END()
