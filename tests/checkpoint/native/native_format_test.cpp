// Tests the native format: a checkpoint saved at one degree loads at every other, and damage is refused with the file's
// name.
#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/native/manifest_body.hpp"
#include "checkpoint/native/manifest_text.hpp"
#include "checkpoint/native/native_source.hpp"
#include "formats/report/diff.hpp"
#include "formats/report/inspect.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/fakes/file_system.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(native_format)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
using core::dtype;

namespace {

const std::filesystem::path root = "/ck";

manifest full_manifest() {
  manifest m;
  m.run = {.step = 0,
           .applied_updates = 6,
           .schedule_position = 5,
           .loss_scale = loss_scale_record{0.1, 70, -1, 2},
           .data_position = 1'234'567'890'123,
           .samples_per_step = 48,
           .seed = UINT64_MAX,
           .config = "steps: 7\n# \"quoted\" \u00e4\n",
           .model = "gpt2",
           .client_state = R"({"b": [1, 2.50, {"deep": null}],  "a": 18446744073709551615})",
           .parameter_order = {"h.0.weight", "frozen", "h.0.bias"},
           .masks = {{"h.0", "row_pruning", 3, {5}, {}}, {"h.0", "sparse_pruning", 2, {3}, {0.5F, -1}}},
           .teacher = std::nullopt,
           .input_ranges = {{"h.0", -0.1F, 3.5e-7F}, {"h.1", 0.0F, 1.0F / 3}},
           .data = data_record{16, 0.1, "bytes 0123", {{"a \"text\"", 3, 4096, {1, 2}}}},
           .left_out = {},
           .recent_losses = {}};
  m.tied = {{"lm_head", "h.0.weight"}};
  return m;
}

/// A checkpoint on a fake disk.
struct saved {
  explicit saved(uint32_t writers, uint64_t seed = 1) : tensors(sample_tensors(seed)) {
    const auto where = check_ok(save_sample(files, root, 7, tensors, writers, full_manifest()));
    folder = *where;
    const auto opened = check_ok(open_checkpoint(files, root));
    from = *opened;
  }
  fake_files files;
  std::vector<sample_tensor> tensors;
  std::filesystem::path folder;
  checkpoint_folder from;
};

/// Returns the manifest with one more tensor: a matrix in two parts over three tensor coordinates.
manifest with_shares(manifest m) {
  tensor_entry t;
  t.name = "shares";
  t.shape = {4, 10};
  t.cut = {core::tp_style::column, 1, {{2, 1, 0}, {3, 3, 1}}};
  uint64_t at = m.files[0].bytes;
  const std::array<std::array<uint32_t, 3>, 4> pieces{{{0, 0, 12}, {0, 12, 8}, {1, 0, 16}, {2, 0, 4}}};
  for (const auto& [share, first, count] : pieces) {
    t.pieces.push_back({0, first, count, at, {}, share});
    at += piece_alignment_bytes;
  }
  m.files[0].bytes = at;
  m.tensors.push_back(std::move(t));
  put_in_order(m);
  return m;
}

/// Limits the process to its current memory and `more_bytes` more.
class memory_limit {
 public:
  explicit memory_limit(uint64_t more_bytes) {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    if (::getrlimit(RLIMIT_AS, &old_) != 0) throw std::runtime_error("getrlimit");
    rlimit now = old_;
    now.rlim_cur = pages * 4096 + more_bytes;
    if (::setrlimit(RLIMIT_AS, &now) != 0) throw std::runtime_error("setrlimit");
  }
  ~memory_limit() { ::setrlimit(RLIMIT_AS, &old_); }
  memory_limit(const memory_limit&) = delete;
  memory_limit& operator=(const memory_limit&) = delete;

 private:
  rlimit old_{};
};

/// Checks that a manifest with a changed body and a valid digest is refused.
void check_refused(std::string body, const std::string& from, const std::string& to, error_kind kind,
                   const std::string& words) {
  const size_t at = body.find(from);
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, from);
  body.replace(at, from.size(), to);
  check_failed(parse_manifest(sealed(body)), kind, words);
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_optimizer_may_have_counted_more_updates_than_the_run_has_steps) {
  fake_files files;
  const auto tensors = sample_tensors(1);
  auto m = full_manifest();
  m.run.applied_updates = 9;
  check_ok(save_sample(files, root, 7, tensors, 1, std::move(m)));
  const auto opened = check_ok(open_checkpoint(files, root));
  BOOST_TEST(opened->content.run.step == 7U);
  BOOST_TEST(source_of(*opened).run.applied_updates.value_or(0) == 9U);
}

BOOST_AUTO_TEST_CASE(an_unknown_seed_stays_unknown_and_is_hidden_from_older_readers) {
  fake_files files;
  const auto tensors = sample_tensors(1);
  auto m = full_manifest();
  m.run.seed.reset();
  BOOST_TEST(manifest_version_for(m) == 3U);
  check_ok(save_sample(files, root, 7, tensors, 1, std::move(m)));
  const auto opened = check_ok(open_checkpoint(files, root));
  BOOST_TEST(!opened->content.run.seed.has_value());
  BOOST_TEST(!source_of(*opened).run.seed.has_value());
}

BOOST_AUTO_TEST_CASE(a_position_of_0_after_a_step_is_unknown_where_no_batch_is_stated) {
  for (const uint64_t position : {0U, 5U})
    for (const bool has_batch : {false, true}) {
      BOOST_TEST_INFO_SCOPE("has batch " << has_batch);
      BOOST_TEST_INFO_SCOPE("position " << position);
      fake_files files;
      const auto tensors = sample_tensors(1);
      auto m = full_manifest();
      m.run.data_position = position;
      if (!has_batch) m.run.samples_per_step.reset();
      check_ok(save_sample(files, root, 7, tensors, 1, std::move(m)));
      const auto opened = check_ok(open_checkpoint(files, root));
      const auto samples = source_of(*opened).run.samples;
      BOOST_TEST(samples.has_value() == (position > 0 || has_batch));
      BOOST_TEST(samples.value_or(position) == position);
    }
}

BOOST_AUTO_TEST_CASE(tensors_of_several_writers_are_loaded_bit_for_bit_by_any_number_of_readers) {
  for (uint32_t writers = 1; writers <= 4; ++writers) {
    BOOST_TEST_INFO_SCOPE("writers " << writers);
    saved s(writers, writers);
    BOOST_TEST(s.from.content.files.size() == writers);
    for (uint32_t readers = 1; readers <= 5; ++readers) check_loads(s.files, s.from, s.tensors, readers);
  }
}

BOOST_AUTO_TEST_CASE(files_on_the_real_file_system_have_the_same_bytes) {
  const scratch_folder scratch;
  const auto tensors = sample_tensors(3);
  const digest128 id{1, 2};
  fake_files memory;
  const auto real = save_sample(real_files(), scratch / "new" / "folder", 7, tensors, 3, full_manifest(), id);
  const auto fake = save_sample(memory, root, 7, tensors, 3, full_manifest(), id);
  check_ok(real);
  check_ok(fake);
  check_newest(real_files(), scratch / "new" / "folder", 7, tensors);
  size_t compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*real)) {
    const auto& there = *memory.content(*fake / entry.path().filename());
    const std::string here = scratch_folder::read(entry.path());
    ++compared;
    if (entry.path().filename() == manifest_file_name) {  // manifests are equal except for the time of commit
      auto one = read_manifest(real_files(), *real), other = read_manifest(memory, *fake);
      BOOST_TEST_REQUIRE((one && other));
      one->content.committed_unix_ns = other->content.committed_unix_ns = 1;
      BOOST_TEST(format_manifest(one->content).value() == format_manifest(other->content).value());
      continue;
    }
    BOOST_TEST(same_bytes(std::as_bytes(std::span(here)), there), entry.path());
  }
  BOOST_TEST(compared == 4U);
  // A link instead of a file is refused, because its target could be any file.
  std::filesystem::rename(*real / "shard-00000.bin", scratch / "elsewhere");
  std::filesystem::create_symlink(scratch / "elsewhere", *real / "shard-00000.bin");
  check_failed(open_checkpoint(real_files(), *real), error_kind::bad_input, "shard-00000.bin");
}

BOOST_AUTO_TEST_CASE(the_run_state_and_tied_names_come_back_as_they_were) {
  const saved s(2);
  auto expected = full_manifest();
  expected.run.step = 7;
  BOOST_TEST((s.from.content.run == expected.run));
  BOOST_TEST((s.from.content.tied == expected.tied));
  auto text = check_ok(format_manifest(s.from.content));
  const auto again = check_ok(parse_manifest(*text));
  BOOST_TEST((*again == s.from.content));
  BOOST_TEST(nlohmann::json::parse(*text)["format"] == "troupe checkpoint");
  BOOST_TEST(find_tensor(*again, "lm_head", tensor_kind::moment, "exp_avg") ==
             find_tensor(*again, "h.0.weight", tensor_kind::moment, "exp_avg"));
  BOOST_TEST(find_tensor(*again, "lm_head", tensor_kind::buffer) == nullptr);
  auto broken = s.from.content;
  broken.run.client_state = "{";
  check_failed(format_manifest(broken), error_kind::bad_input, "the client state is not valid JSON");
  broken = s.from.content;
  broken.run.config = "\xff";
  check_failed(format_manifest(broken), error_kind::bad_input, "not UTF-8");
  broken = s.from.content;
  broken.run.parameter_order = {"a", "b", "a"};
  check_failed(format_manifest(broken), error_kind::bad_input, "'a' appears twice in the parameters' order");
  for (const input_range& wrong : {input_range{"h.0", 1, -1}, input_range{"h.0", 0, INFINITY}}) {
    broken = s.from.content;
    broken.run.input_ranges = {wrong};
    check_failed(format_manifest(broken), error_kind::bad_input, "the range of the input of 'h.0' is not valid");
  }
}

BOOST_AUTO_TEST_CASE(what_a_run_left_out_is_kept_and_checked) {
  const saved s(2);
  auto m = s.from.content;
  m.run.left_out = {{812, 820, true, {{6488, 6552}, {6560, 6568}}}, {900, 900, false, {{7200, 7208}}}};
  m.run.recent_losses = {0.1, 2.5, 1.0 / 3};
  const auto text = check_ok(format_manifest(m));
  // The version must be 3, because programs that know only older versions would train on the samples that are left out.
  BOOST_TEST(text->find("\"version\":3,") != std::string::npos);
  const auto again = check_ok(parse_manifest(*text));
  BOOST_TEST((*again == m));
  using core::left_out_steps;
  for (const left_out_steps& wrong :
       {left_out_steps{0, 1, false, {{0, 1}}}, left_out_steps{5, 4, false, {{0, 1}}}, left_out_steps{1, 1, false, {}},
        left_out_steps{1, 1, false, {{3, 3}}}, left_out_steps{1, 1, false, {{0, 2}, {2, 3}}},
        left_out_steps{1, 1, false, {{5, 6}, {1, 2}}}, left_out_steps{1, 1, false, {{0, UINT64_MAX}}}}) {
    m.run.left_out = {wrong};
    check_failed(format_manifest(m), error_kind::bad_input, "are not valid");
  }
  m.run.left_out.assign(core::left_out_max + 1, {1, 1, false, {{0, 1}}});
  check_failed(format_manifest(m), error_kind::limit, "2001 decisions to leave samples out");
  m.run.left_out.clear();
  m.run.recent_losses = {1, INFINITY};
  check_failed(format_manifest(m), error_kind::bad_input, "one of its recent losses is not finite");
}

BOOST_AUTO_TEST_CASE(values_that_a_program_has_set_are_kept_checked_and_hidden_from_older_readers) {
  const saved s(2);
  auto m = s.from.content;
  m.run.group_changes = {{"rest", 1.0 / 3, std::nullopt}, {"parameter_groups[0]: \"ln\"", 0.0, 0.1}};
  const auto text = check_ok(format_manifest(m));
  BOOST_TEST(text->find("\"version\":4,") != std::string::npos);
  const auto again = check_ok(parse_manifest(*text));
  BOOST_TEST((*again == m));
  for (const double wrong : {-1.0, double{INFINITY}, double{NAN}}) {
    m.run.group_changes = {{"rest", wrong, std::nullopt}};
    check_failed(format_manifest(m), error_kind::bad_input, "a rate or decay of one of its optimizer groups");
    m.run.group_changes = {{"rest", std::nullopt, wrong}};
    check_failed(format_manifest(m), error_kind::bad_input, "is negative or not finite");
  }
}

BOOST_AUTO_TEST_CASE(a_manifest_without_the_order_of_parameters_is_read) {
  const saved s(2);
  const auto text = check_ok(format_manifest(s.from.content));
  auto body = text->substr(text->find('\n') + 1);
  const auto at = body.find(",\n\"schedule_position\":5");
  BOOST_TEST_REQUIRE(at != std::string::npos);
  body.erase(at, body.find(']', at) + 1 - at);
  const auto older = check_ok(parse_manifest(sealed(body)));
  BOOST_TEST(older->run.parameter_order.empty());
  BOOST_TEST(!older->run.schedule_position.has_value());
  BOOST_TEST((older->tensors == s.from.content.tensors));
}

BOOST_AUTO_TEST_CASE(every_flipped_byte_of_manifest_and_header_is_refused) {
  saved s(2);
  auto& text = *s.files.content(s.folder / "manifest.json");
  for (size_t i = 0; i < text.size(); ++i) {
    const auto good = text[i];
    text[i] ^= static_cast<std::byte>(1 << (i % 8));
    const auto refused = open_folder(s.files, s.folder);
    BOOST_TEST(!refused, "byte " << i);
    if (!refused) BOOST_TEST(refused.error().text.find("manifest.json'") != std::string::npos, refused.error().text);
    text[i] = good;
  }
  auto& shard = *s.files.content(s.folder / "shard-00001.bin");
  for (size_t i = 0; i < shard_header_bytes; ++i) {
    shard[i] ^= static_cast<std::byte>(1 << (i % 8));
    const auto refused = open_folder(s.files, s.folder);
    BOOST_TEST(!refused, "byte " << i);
    if (!refused) BOOST_TEST(refused.error().text.find("shard-00001.bin'") != std::string::npos, refused.error().text);
    shard[i] ^= static_cast<std::byte>(1 << (i % 8));
  }
  check_ok(open_folder(s.files, s.folder));
  shard.pop_back();
  check_failed(open_folder(s.files, s.folder), error_kind::bad_input, "its manifest states");
  check_ok(s.files.remove(s.folder / "shard-00001.bin"));
  check_failed(open_folder(s.files, s.folder), error_kind::bad_input, "shard-00001.bin': No such file");
}

BOOST_AUTO_TEST_CASE(a_flipped_byte_of_any_piece_is_refused_with_file_tensor_and_offset) {
  saved s(2);
  for (const auto& t : s.from.content.tensors)
    for (const auto& p : t.pieces) {
      const auto& name = s.from.content.files[p.file].name;
      auto& content = *s.files.content(s.folder / name);
      const uint64_t bytes = p.count * core::size_of(t.type);
      auto& byte = content[p.offset_bytes + core::mix64(p.offset_bytes) % bytes];
      byte ^= std::byte{16};
      const auto report = check_ok(verify_checkpoint(s.files, s.folder));
      BOOST_REQUIRE(report->damages == 1U);
      BOOST_TEST(report->listed[0].file == name);
      BOOST_TEST(report->listed[0].tensor == shown(t));
      BOOST_TEST(report->listed[0].offset_bytes == p.offset_bytes);
      const auto source = source_of(s.from);
      std::vector<std::byte> into(bytes);
      const auto load =
          load_parts(s.files, source, {{find_tensor(source, t.name, t.kind, t.moment), p.first, p.count, 0}}, into);
      check_failed(load, error_kind::bad_input,
                   fmt::format("{}': the {} bytes at byte {}, of tensor {}", name, bytes, p.offset_bytes, shown(t)));
      byte ^= std::byte{16};
    }
  // Padding that is not zero must be detected.
  auto& content = *s.files.content(s.folder / "shard-00001.bin");
  content.back() ^= std::byte{1};
  BOOST_TEST(verify_checkpoint(s.files, s.folder)->damages == 1U);
}

BOOST_AUTO_TEST_CASE(a_shard_of_another_save_is_refused_before_its_pieces_are_read) {
  saved one(1), two(1);
  *one.files.content(one.folder / "shard-00000.bin") = *two.files.content(two.folder / "shard-00000.bin");
  check_failed(open_folder(one.files, one.folder), error_kind::bad_input, "it belongs to another save");
}

BOOST_AUTO_TEST_CASE(manifests_that_break_a_rule_are_refused_with_the_tensor) {
  const saved s(2);
  const auto text = format_manifest(s.from.content).value();
  const std::string body = text.substr(text.find('\n') + 1);
  const auto bad = error_kind::bad_input;
  auto newer = text;
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":12");
  check_failed(parse_manifest(newer), error_kind::mismatch, "it has version 12, this program reads versions up to 4");
  check_failed(parse_manifest("{}"), bad, "does not begin like the manifest");
  check_refused(body, "shard-00000.bin", "../secrets", bad, "'../secrets' is not a plain file name");
  check_refused(body, "shard-00000.bin", "/etc/passwd", bad, "is not a plain file name");
  check_refused(body, "shard-00000.bin", "shard-00001.bin", bad, "the file 'shard-00001.bin' appears twice");
  check_refused(body, "\"shape\":[3]", "\"shape\":[4]", bad, "'h.0.bias' (master): no piece holds its element 3");
  check_refused(body, "\"shape\":[3]", "\"shape\":[2]", bad,
                "'h.0.bias' (master): 3 elements from element 0 on reach beyond");
  check_refused(body, "\"shape\":[3]", "\"shape\":[3,-1]", bad, "more elements than a file can hold");
  check_refused(body, "\"shape\":[3]", "\"shape\":[4294967296,4294967296,4294967296]", bad,
                "more elements than a file can hold");
  check_refused(body, "\"shape\":[3]", "\"shape\":[1.5]", bad, "a whole number in range was wanted");
  check_refused(body, "\"kind\":\"buffer\"", "\"kind\":\"bias\"", bad, "a known kind, not 'bias',");
  check_refused(body, "\"dtype\":\"bool\"", "\"dtype\":\"int3\"", bad, "a known dtype, not 'int3',");
  check_refused(body, "\"tied\":[[\"lm_head\",\"h.0.weight\"", "\"tied\":[[\"lm_head\",\"h.1.weight\"", bad,
                "is tied to 'h.1.weight', which does not exist");
  check_refused(body, "\"seed\":", "\"seed\":1,\"seed\":", bad, "the key 'seed' appears twice");
  check_refused(body, "\"seed\":18446744073709551615", "\"seed\":-1", bad, "its run state: a whole number in range");
  check_refused(body, "\"tied\":", "\"tied\":[[[[[[[]]]]]]],\"more\":", bad, "it nests deeper than 6");

  auto m = s.from.content;
  auto& split = *std::find_if(m.tensors.begin(), m.tensors.end(), [](const auto& t) { return t.pieces.size() == 2; });
  auto& second = split.pieces[1];
  const auto good = second;
  second.first -= 1;
  check_failed(check_manifest(m), bad, "overlaps the one that ends at");
  second.first += 2;
  check_failed(check_manifest(m), bad, fmt::format("no piece holds its element {}", good.first));
  second = good;
  second.offset_bytes += 1;
  check_failed(check_manifest(m), bad, "a piece cannot start at byte");
  second = good;
  second.offset_bytes = m.files[second.file].bytes;
  check_failed(check_manifest(m), bad, "reach beyond the end of 'shard-00001.bin'");
  second = good;
  second.file = 2;
  check_failed(check_manifest(m), bad, "file number 2 does not exist");
  second = good;
  second.file = split.pieces[0].file;
  second.offset_bytes = split.pieces[0].offset_bytes;
  check_failed(check_manifest(m), bad, "claim the same bytes of 'shard-00000.bin'");
}

BOOST_AUTO_TEST_CASE(only_a_manifest_with_shares_has_the_second_version) {
  const saved s(2);
  const auto first = format_manifest(s.from.content).value();
  BOOST_TEST(first.starts_with(R"({"format":"troupe checkpoint","version":1,)"));
  const auto m = with_shares(s.from.content);
  const auto second = format_manifest(m).value();
  BOOST_TEST(second.starts_with(R"({"format":"troupe checkpoint","version":2,)"));
  const auto again = check_ok(parse_manifest(second));
  BOOST_TEST((*again == m));
  // Programs that know only version 1 do not know shares of a cut, so a manifest of that version must not contain them.
  check_failed(parse_manifest(sealed(second.substr(second.find('\n') + 1), 1)), error_kind::bad_input,
               "tensor 'shares': a list of 5 values was wanted");
}

BOOST_AUTO_TEST_CASE(shares_that_break_a_rule_are_refused_with_the_tensor) {
  const auto m = with_shares(saved(2).from.content);
  const auto text = format_manifest(m).value();
  const std::string body = text.substr(text.find('\n') + 1);
  const auto bad = error_kind::bad_input;
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& words) {
    check_refused(body, from, to, bad, words);
  };
  refused("[[2,1,0],[3,3,1]]", "[[2,1,0],[3,3,2]]", "wanted widths that sum to 10 along dimension 1, got 11");
  refused("[[2,1,0],[3,3,1]]", "[[2,1],[3,3,1]]", "wanted a width for each of 2 ranks, got 3");
  refused("[[2,1,0],[3,3,1]]", "[[2,1,0],[18446744073709551615,3,1]]", "got more than 64 bits hold");
  refused("[[2,1,0],[3,3,1]]", "[[2,1,0],[3,4,0]]",
          "'shares' (master): no piece holds its elements 16 to 19 of share 1");
  refused("[[2,1,0],[3,3,1]]", "[[2,1,0],[2,3,2]]",
          "8 elements from element 12 on reach beyond its 16 elements of share 0");
  refused("[[2,1,0],[3,3,1]]", "[]", "a known cut with its parts, not 'column',");
  refused("\"style\":\"column\"", "\"style\":\"replicated\"", "a known cut with its parts");
  refused("\"dimension\":1", "\"dimension\":2", "wanted one of 2 dimensions, got dimension 2");
  refused("\"dimension\":1", "\"dimension\":-1", "a whole number in range was wanted");
  check_refused(body, "[[2,1,0],[3,3,1]]", "[[2,1,0],[3,3,1],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]",
                error_kind::limit, "it is cut in 17 parts");

  auto other = m;
  auto& pieces = std::ranges::find(other.tensors, "shares", &tensor_entry::name)->pieces;
  const auto good = pieces;
  pieces[1].first -= 1;
  check_failed(check_manifest(other), bad, "the piece at element 11 of share 0 overlaps the one that ends at 12");
  pieces = good;
  pieces.erase(pieces.begin() + 2);
  check_failed(check_manifest(other), bad, "no piece holds its elements 0 to 15 of share 1");
  pieces = good;
  pieces[3].share = 3;
  check_failed(check_manifest(other), bad, "no piece holds its elements 0 to 3 of share 2");
  pieces = good;
  pieces.push_back(pieces[3]);
  check_failed(check_manifest(other), bad, "the piece at element 0 of share 2 overlaps");
  pieces = good;
  std::swap(pieces[1], pieces[2]);
  check_failed(check_manifest(other), bad, "no piece holds its elements 12 to 19 of share 0");
  pieces = good;
  pieces.push_back({0, 0, 4, good[3].offset_bytes, {}, 7});
  check_failed(check_manifest(other), bad,
               "a piece of share 7 is out of order, or its share does not exist: there are 3");
}

BOOST_AUTO_TEST_CASE(mutated_manifests_behind_a_good_seal_are_refused_or_keep_every_rule) {
  const saved s(3);
  const auto text = format_manifest(with_shares(s.from.content)).value();
  const std::string body = text.substr(text.find('\n') + 1);
  const memory_limit limit(uint64_t{64} << 20);
  size_t refused = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    std::mt19937_64 random(seed);
    std::string now = body;
    for (uint64_t edits = random() % 4 + 1; edits > 0; --edits) {
      const size_t at = random() % now.size();
      switch (random() % 5) {
        case 0:
          now[at] = static_cast<char>(random());
          break;
        case 1:
          now.erase(at, random() % 40);
          break;
        case 2:
          now.insert(at, now.substr(random() % now.size(), random() % 200));
          break;
        case 3:  // replaces a digit by another one
          if (const size_t digit = now.find_first_of("0123456789", at); digit != std::string::npos)
            now[digit] = static_cast<char>('0' + random() % 10);
          break;
        default:
          now.insert(at, std::string(random() % 2000, "[{9\""[random() % 4]));
      }
      if (now.empty()) now.push_back('x');
    }
    const auto got = parse_manifest(sealed(now));
    if (got)
      check_ok(check_manifest(*got));
    else
      ++refused;
  }
  BOOST_TEST(refused > 600U);
}

BOOST_AUTO_TEST_CASE(a_short_read_is_repeated_once_and_then_named) {
  saved s(1);
  const auto source = source_of(s.from);
  const auto& t = s.tensors[0];
  const wanted_part whole{find_tensor(source, t.entry.name, t.entry.kind), 0, t.data.size() / 4, 0};
  std::vector<std::byte> into(t.data.size());
  s.files.shorten_reads(5000);  // two reads of at most 5,000 bytes are enough for the tensor
  check_ok(load_parts(s.files, source, {whole}, into));
  BOOST_TEST(same_bytes(into, t.data));
  s.files.shorten_reads(4200);
  check_failed(load_parts(s.files, source, {whole}, into), error_kind::io,
               "shard-00000.bin': only 8400 of 9028 bytes could be read at byte 4096");
}

BOOST_AUTO_TEST_CASE(diff_finds_the_first_element_that_differs_whatever_the_cuts) {
  fake_files files;
  auto tensors = sample_tensors(1);
  const auto save = [&](const char* where, uint32_t writers) {
    const auto folder = check_ok(save_sample(files, where, 1, tensors, writers));
    return open_folder(files, *folder).value();
  };
  const auto one = save("/one", 1), same = save("/same", 4);
  const auto diff = [&](const auto& a, const auto& b) { return diff_sources(files, source_of(a), source_of(b)); };
  BOOST_TEST(diff(one, same)->differences.empty());
  tensors[0].data[4 * 1500 + 3] ^= std::byte{1};
  tensors[4].entry.name = "renamed";
  tensors[5].entry.shape = {1024, 2};
  tensors[7].entry.type = dtype::u8;
  const auto other = save("/other", 3);
  const auto found = check_ok(diff(one, other));
  std::string all;
  for (const auto& d : found->differences) all += d.text + "\n";
  BOOST_TEST(all ==
             "'frozen' (frozen) is [2, 1024, 1] in the first, [1024, 2] in the second\n"
             "'h.0.bias' (master) is only in the first\n"
             "'h.0.weight' (master) differs from element 1500 on: 1 of 2257 elements, by up to 4.27e-08\n"
             "'mask' (buffer) is bool in the first, uint8 in the second\n"
             "'renamed' (master) is only in the second\n");
}

BOOST_AUTO_TEST_CASE(inspect_shows_the_tree_and_the_files_of_each_tensor) {
  const saved s(2);
  const auto text = inspect_text(source_of(s.from));
  for (const char* line : {"/ck/step-00000007: troupe, step 7 (6 updates applied), 9 tensors of ",
                           "\n  h\n    0\n      bias  [3]\n        master fp32, 12 B, 1 piece: shard-00001.bin\n",
                           "\n      weight  [37, 61]\n        master fp32, 8.82 KiB, 2 pieces: shard-00000.bin, "
                           "shard-00001.bin\n        exp_avg fp32, ",
                           "\n  lm_head is h.0.weight\n", "\nshard-00000.bin of rank 0: "})
    BOOST_TEST(text.find(line) != std::string::npos, line << " is not in\n" << text);
  const auto json = nlohmann::json::parse(inspect_json(source_of(s.from)));
  BOOST_TEST(json["tensors"].size() == 9U);
  BOOST_TEST(json["tensors"][2]["pieces"][0]["file"] == "shard-00001.bin");
  uint64_t bytes = 0, held = 0;
  for (const auto& t : s.tensors) bytes += t.data.size();
  for (const auto& f : json["files"]) held += f["piece_bytes"].get<uint64_t>();
  BOOST_TEST(json["bytes"] == bytes);
  BOOST_TEST(held == bytes);
}

BOOST_AUTO_TEST_CASE(digests_are_xxh3_128) {
  // The expected value is the digest of an empty input in xxHash's specification of XXH128 with seed 0.
  BOOST_TEST(to_hex(digest_of(std::string_view())) == "99aa06d3014798d86001c324468d497f");
  const auto bytes = noise(100'000, 1);
  digest_stream stream;
  for (size_t at = 0, n = 1; at < bytes.size(); at += n, n = n * 3 + 1)
    stream.add(std::span(bytes).subspan(at, std::min(n, bytes.size() - at)));
  BOOST_TEST((stream.value() == digest_of(bytes)));
  BOOST_TEST((digest_from_hex(to_hex(digest_of(bytes))) == digest_of(bytes)));
  BOOST_TEST(!digest_from_hex("99AA06d3014798d86001c324468d497f"));
}

BOOST_AUTO_TEST_SUITE_END()
