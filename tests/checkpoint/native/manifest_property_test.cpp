// Tests random checkpoints: their manifest describes them completely, and loading any other division of their tensors
// returns equal bytes.
#include <fmt/format.h>

#include <numeric>
#include <set>

#include "checkpoint/native/manifest_text.hpp"
#include "checkpoint/native/native_source.hpp"
#include "formats/source/source_reader.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/fakes/file_system.hpp"

BOOST_AUTO_TEST_SUITE(manifest_property)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;

namespace {

class dice {
 public:
  explicit dice(uint64_t seed) : random_(core::mix64(seed)) {}

  uint64_t below(uint64_t n) { return random_() % n; }
  uint64_t any() { return random_(); }
  bool one_in(uint64_t n) { return below(n) == 0; }

  /// Returns a random text with characters that JSON, terminals and languages treat in different ways.
  std::string text() {
    static const std::vector<std::string> letters{
        "a", "weight", ".", "0", "\"", "\\", "/", "\n", "\t", " ", "\x01", "é", "\xf0\x9f\x92\xa1", "\x7f"};
    std::string out;
    for (uint64_t i = below(6); i > 0; --i) out += letters[below(letters.size())];
    return out;
  }

  /// Returns the elements [0, n) divided into 1 to 5 ranges, none of them empty unless n is 0.
  std::vector<std::pair<uint64_t, uint64_t>> cut(uint64_t n) {
    std::set<uint64_t> ends{n};
    for (uint64_t i = below(5); i > 0 && n > 0; --i) ends.insert(below(n));
    std::vector<std::pair<uint64_t, uint64_t>> out;
    uint64_t first = 0;
    for (const uint64_t end : ends) {
      if (end > first) out.emplace_back(first, end - first);
      first = end;
    }
    return out;
  }

 private:
  std::mt19937_64 random_;
};

/// Returns a cut over 1 to 4 tensor-parallel coordinates in 1 to 3 parts; some widths are 0.
core::parameter_cut random_cut(dice& d, const std::vector<int64_t>& shape) {
  core::parameter_cut out{.style = d.one_in(2) ? core::tp_style::column : core::tp_style::row,
                          .dimension = static_cast<uint32_t>(d.below(shape.size())),
                          .parts = {}};
  const uint64_t degree = 1 + d.below(4), parts = 1 + d.below(3);
  for (uint64_t p = 0; p < parts; ++p) out.parts.emplace_back(degree, 0);
  for (int64_t i = 0; i < shape[out.dimension]; ++i) ++out.parts[d.below(parts)][d.below(degree)];
  return out;
}

sample_tensor random_tensor(dice& d, size_t number) {
  tensor_entry e;
  e.name = fmt::format("{}#{}", d.text(), number);  // the number makes every name different
  e.kind = static_cast<tensor_kind>(d.below(5));
  if (e.kind == tensor_kind::moment) e.moment = "exp_avg" + d.text();
  e.type = static_cast<core::dtype>(d.below(static_cast<uint64_t>(core::dtype::boolean) + 1));
  for (uint64_t i = d.below(4); i > 0; --i) e.shape.push_back(static_cast<int64_t>(d.one_in(20) ? 0 : 1 + d.below(17)));
  if (d.one_in(8)) e.shape.assign(1, static_cast<int64_t>(d.below(9000)));
  const auto bytes = bytes_of(e.type, e.shape).value();
  if (!e.shape.empty() && d.one_in(2)) e.cut = random_cut(d, e.shape);
  return {std::move(e), noise(bytes, d.any())};
}

/// Returns the bytes of the elements that a share of a tensor contains, in order.
std::vector<std::byte> bytes_of_share(const sample_tensor& t, uint32_t share) {
  const uint64_t size = core::size_of(t.entry.type);
  const core::tp_slices own(t.entry.shape, t.entry.cut, share, core::tp_room::own);
  std::vector<std::byte> out;
  for (const auto& run : own.runs(0, own.elements()))
    out.insert(out.end(), t.data.begin() + static_cast<ptrdiff_t>(run.whole * size),
               t.data.begin() + static_cast<ptrdiff_t>((run.whole + run.count) * size));
  return out;
}

run_state random_run(dice& d) {
  run_state r;
  r.data_position = d.any();
  if (d.one_in(2)) r.samples_per_step = d.any();
  if (d.one_in(4))
    r.seed.reset();
  else
    r.seed = d.any();
  r.config = d.text();
  r.model = d.text();
  if (d.one_in(2))
    r.loss_scale = {static_cast<double>(d.any()) / 3, static_cast<int64_t>(d.any()), -static_cast<int64_t>(d.below(99)),
                    static_cast<uint32_t>(d.any())};
  for (uint64_t n = d.below(3), i = 0; i < n; ++i) {
    mask_record mask{d.text(), "row_pruning", 1 + d.below(40), {}, {}};
    for (uint64_t e = 0; e < mask.elements; e += 8)
      mask.bits.push_back(
          static_cast<uint8_t>(d.any() & (mask.elements - e < 8 ? (1U << (mask.elements - e)) - 1 : 255U)));
    if (d.one_in(2))
      for (uint64_t e = 0; e < mask.elements; ++e) mask.scores.push_back(static_cast<float>(d.below(1000)) / 7);
    r.masks.push_back(std::move(mask));
  }
  if (d.one_in(2)) r.teacher = teacher_record{d.text(), {d.any(), d.any()}};
  for (uint64_t n = d.below(3), i = 0; i < n; ++i) {
    const auto least = static_cast<float>(d.below(1000)) / 7 - 70;
    r.input_ranges.push_back({d.text(), least, least + static_cast<float>(d.below(100)) / 3});
  }
  for (uint64_t n = d.below(3), i = 0; i < n; ++i) {
    const uint64_t first = 1 + d.below(1000), begin = d.below(1'000'000);
    auto& x = r.left_out.emplace_back(core::left_out_steps{first, first + d.below(9), d.one_in(2), {}});
    for (uint64_t ranges = 1 + d.below(3), k = 0; k < ranges; ++k)
      x.samples.push_back({begin + 100 * k, begin + 100 * k + 1 + d.below(99)});
  }
  if (d.one_in(2)) {
    auto& data = r.data.emplace(data_record{d.any(), static_cast<double>(d.below(1000)) / 1000, d.text(), {}});
    for (uint64_t n = d.below(3), i = 0; i < n; ++i)
      data.sources.push_back({d.text(), d.any(), d.any(), {d.any(), d.any()}});
    if (d.one_in(2)) {
      auto& end = data.end_of_text.emplace();
      if (d.one_in(2)) end = static_cast<uint32_t>(d.any());
    }
    data.shuffled = !d.one_in(3);
    for (uint64_t n = d.below(3), i = 0; i < n; ++i) data.validation.push_back({d.text(), d.any(), {d.any(), d.any()}});
    if (d.one_in(2)) data.document_mask = d.one_in(2);
    if (d.one_in(2))
      data.masking = masking_record{.probability = static_cast<double>(d.below(1000)) / 1000,
                                    .mask = 0.8,
                                    .random = 0.1,
                                    .mask_token = static_cast<uint32_t>(d.any()),
                                    .vocabulary = d.any(),
                                    .special = {d.any(), d.any()}};
  }
  for (uint64_t n = d.below(4), i = 0; i < n; ++i) r.recent_losses.push_back(static_cast<double>(d.any()) / 3);
  if (d.one_in(2)) r.group_changes = {{d.text(), static_cast<double>(d.below(1000)) / 7, std::nullopt}};
  if (d.one_in(2)) r.client_state = fmt::format("{{\"a\": [{}, -1.5e-3, \"x\\n\"] }}", d.any());
  return r;
}

/// A checkpoint on a fake disk, and the tensors that were saved in it.
struct random_checkpoint {
  std::vector<sample_tensor> tensors;
  manifest m;
  fake_files files;
  std::filesystem::path folder;

  explicit random_checkpoint(dice& d) {
    for (uint64_t n = 1 + d.below(10), i = 0; i < n; ++i) tensors.push_back(random_tensor(d, i));
    m.run = random_run(d);
    for (const auto& t : tensors) {
      m.tensors.push_back(t.entry);
      if (d.one_in(3)) m.run.parameter_order.push_back(t.entry.name);
      if (d.one_in(5)) m.tied.push_back({"tied " + t.entry.name, t.entry.name});
    }
    const uint64_t writers = 1 + d.below(4), step = d.below(1000);
    m.save_id = random_save_id();
    auto save = check_ok(checkpoint_save::begin(files, "/c", step, 0, m.save_id));
    struct part {
      size_t tensor;
      uint32_t share;
      uint64_t first, count;
    };
    std::vector<std::vector<part>> of_writer(writers);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto& cut = tensors[i].entry.cut;
      for (uint32_t s = 0; s < (cut.cuts() ? cut.parts[0].size() : 1); ++s)
        for (const auto& [first, count] :
             d.cut(bytes_of_share(tensors[i], s).size() / core::size_of(tensors[i].entry.type)))
          of_writer[d.below(writers)].push_back({i, s, first, count});
    }
    for (uint32_t w = 0; w < writers; ++w) {
      auto made = check_ok(save->create_shard(w, shard_header_bytes));
      piece_writer shard(std::move(*made));
      auto& parts = of_writer[w];
      for (size_t i = parts.size(); i > 1; --i) std::swap(parts[i - 1], parts[d.below(i)]);
      for (const auto& p : parts) {
        const uint64_t size = core::size_of(tensors[p.tensor].entry.type);
        const auto all = bytes_of_share(tensors[p.tensor], p.share);
        const auto wrote = check_ok(shard.append(
            std::span(all).subspan(static_cast<size_t>(p.first * size), static_cast<size_t>(p.count * size))));
        m.tensors[p.tensor].pieces.push_back({w, p.first, p.count, wrote->offset_bytes, wrote->digest, p.share});
      }
      auto file = check_ok(shard.finish());
      m.files.push_back(*file);
    }
    m.run.step = step;
    m.run.applied_updates = d.below(step + 1);
    put_in_order(m);
    const auto saved = check_ok(save->commit(m));
    folder = *saved;
  }

  [[nodiscard]] uint64_t elements(size_t i) const {
    return tensors[i].data.size() / core::size_of(tensors[i].entry.type);
  }
};

/// Loads every element of every tensor, in random ranges and order, into memory with gaps between them.
void check_other_cuts(random_checkpoint& c, const checkpoint_folder& from, dice& d) {
  struct place {
    size_t tensor;
    uint64_t begin_bytes;
  };
  const auto source = source_of(from);
  std::vector<wanted_part> wanted;
  std::vector<place> places;
  uint64_t memory = 0;
  for (size_t i = 0; i < c.tensors.size(); ++i) {
    const auto& e = c.tensors[i].entry;
    const auto tied = find_if(c.m.tied.begin(), c.m.tied.end(), [&](const auto& t) { return t.of == e.name; });
    for (const auto& [first, count] : d.cut(c.elements(i))) {
      memory += d.below(64);
      const auto& name = tied != c.m.tied.end() && d.one_in(2) ? tied->name : e.name;
      wanted.push_back({find_tensor(source, name, e.kind, e.moment), first, count, memory});
      places.push_back({i, first * core::size_of(e.type)});
      memory += count * core::size_of(e.type);
    }
  }
  for (size_t i = wanted.size(); i > 1; --i) {
    const size_t j = d.below(i);
    std::swap(wanted[i - 1], wanted[j]);
    std::swap(places[i - 1], places[j]);
  }
  std::vector<std::byte> got(static_cast<size_t>(memory));
  c.files.shorten_reads(d.one_in(4) ? 4096 + d.below(9000) + got.size() / 2 : SIZE_MAX);
  const auto report = load_parts(c.files, source, wanted, got);
  c.files.shorten_reads(SIZE_MAX);
  check_ok(report);
  BOOST_TEST(report->verified_bytes == report->bytes);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto bytes = static_cast<size_t>(wanted[i].count * core::size_of(wanted[i].tensor->type));
    const auto expected =
        std::span(std::as_const(c.tensors[places[i].tensor].data)).subspan(places[i].begin_bytes, bytes);
    const auto found = std::span(std::as_const(got)).subspan(wanted[i].at, bytes);
    BOOST_TEST(same_bytes(found, expected), wanted[i].tensor->name << " from " << wanted[i].first);
  }
}

/// Loads the shares of another cut of some tensors, and a range of each through the single-threaded reader.
void check_other_shares(random_checkpoint& c, const checkpoint_folder& from, dice& d) {
  const auto source = source_of(from);
  source_reader reader(source, c.files);
  for (const auto& t : c.tensors) {
    const auto* entry = find_tensor(source, t.entry.name, t.entry.kind, t.entry.moment);
    const uint64_t size = core::size_of(t.entry.type), all = t.data.size() / size;
    const uint64_t first = d.below(all + 1), count = d.below(all - first + 1);
    std::vector<std::byte> range(count * size);
    check_ok(reader.read(*entry, first, count, range));
    BOOST_TEST(same_bytes(range, std::span(t.data).subspan(first * size, count * size)));
    if (t.entry.shape.empty()) continue;
    sample_tensor other = t;
    other.entry.cut = random_cut(d, t.entry.shape);
    const auto share = static_cast<uint32_t>(d.below(other.entry.cut.parts[0].size()));
    const core::tp_slices room(t.entry.shape, other.entry.cut, share);
    std::vector<std::byte> got(room.elements() * size, std::byte{0x5a});
    const uint64_t begin = d.below(room.elements() + 1), n = d.below(room.elements() - begin + 1);
    const std::vector<scattered_tensor> wanted{{entry, {{begin, n, t.entry.type, got.data() + begin * size, &room}}}};
    check_ok(read_scattered(c.files, source, wanted));
    for (const auto& run : room.runs(begin, n)) {
      const auto there = std::span(std::as_const(got)).subspan(run.local * size, run.count * size);
      if (run.is_padding())
        BOOST_TEST(std::ranges::all_of(there, [](std::byte b) { return b == std::byte{0x5a}; }));
      else
        BOOST_TEST(same_bytes(there, std::span(t.data).subspan(run.whole * size, run.count * size)));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_random_checkpoint_comes_back_from_its_text_and_loads_at_any_other_cut) {
  for (uint64_t seed = 0; seed < wanted_cases("TROUPE_CASES", 400); ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      dice d(seed);
      random_checkpoint c(d);
      c.m.committed_unix_ns = seed;
      const auto text = check_ok(format_manifest(c.m));
      const auto parsed = check_ok(parse_manifest(*text));
      BOOST_TEST((*parsed == c.m));
      const auto again = check_ok(format_manifest(*parsed));
      BOOST_TEST(*again == *text);
      // The text contains no control characters, because they are escaped.
      BOOST_TEST(text->find_first_of("\x01\x7f") == text->find('\x7f'));

      const auto from = check_ok(open_checkpoint(c.files, "/c"));
      BOOST_TEST(from->content.committed_unix_ns > seed);  // the commit sets the time
      c.m.committed_unix_ns = from->content.committed_unix_ns;
      BOOST_TEST((from->content == c.m));
      const auto report = check_ok(verify_checkpoint(c.files, c.folder));
      BOOST_TEST(report->damages == 0U);
      for (int cuts = 0; cuts < 3; ++cuts) check_other_cuts(c, *from, d);
      check_other_shares(c, *from, d);
    }
}

BOOST_AUTO_TEST_SUITE_END()
