// Tests the weights that remain of a process that was killed while it stored them.
#include "checkpoint/convert/weight_store.hpp"

#include <boost/test/unit_test.hpp>

#include "checkpoint/source/source_reader.hpp"
#include "tests/checkpoint/random_source.hpp"
#include "tests/checkpoint/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(weight_store)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::tests;

namespace {

std::vector<stored_bytes> codes(uint8_t of) {
  std::vector<stored_bytes> out;
  out.push_back({weight_part::codes, std::vector<std::byte>(5, std::byte{of})});
  out.push_back({weight_part::scales, std::vector<std::byte>(3, std::byte{9})});
  return out;
}

std::string replaced_once(std::string text, const std::string& piece, const std::string& instead) {
  return text.replace(text.find(piece), piece.size(), instead);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_was_committed_is_there_again_and_what_was_not_is_gone) {
  const scratch_folder f;
  {
    auto s = checkpoint::weight_store::open(f / "work", "a purpose");
    BOOST_TEST_REQUIRE(s.has_value());
    BOOST_TEST(s->steps() == 0U);
    check_ok(s->put("a", codes(1), {1, 4}));
    s->put_importance("a", {1, 2.5F});
    check_ok(s->commit(3));
    check_ok(s->put("b", codes(2), {}));
  }
  auto s = checkpoint::weight_store::open(f / "work", "a purpose");
  BOOST_TEST_REQUIRE(s.has_value());
  BOOST_TEST(s->steps() == 3U);
  check_ok(s->put("c", codes(7), {}));
  check_ok(s->commit(4));
  const auto made = s->prepared();
  BOOST_TEST_REQUIRE(made.has_value());
  BOOST_TEST(made->find("b") == nullptr);
  BOOST_TEST_REQUIRE(made->find("a") != nullptr);
  BOOST_TEST(made->find("a")->lost.relative() == 0.5);
  BOOST_TEST((made->importance_of("a").size() == 2 && made->importance_of("a")[1] == 2.5F));
  std::vector<std::byte> two(2);
  check_ok(made->read(*made->find("c"), weight_part::codes, 3, two));
  BOOST_TEST((two[1] == std::byte{7}));
  check_ok(made->read(*made->find("a"), weight_part::scales, 0, two));
  BOOST_TEST((two[0] == std::byte{9}));
  BOOST_TEST(!made->read(*made->find("a"), weight_part::codes, 4, two).has_value());
}

BOOST_AUTO_TEST_CASE(another_purpose_and_a_broken_journal_begin_anew) {
  const scratch_folder f;
  const std::string head = R"({"version": 2, "purpose": "one", "steps": 2, "bytes": 8, "importance": {}, )";
  const std::vector<std::string> broken = {
      R"({"version": 2, "purpose": "one", "steps": 2, "bytes": 99999})",
      R"({"version": "1", "purpose": 1})",
      head + R"("weights": {"a": {"error": 0, "squares": 0, "parts": [[0, 4, 5]]}}, "values": {}})",
      head + R"("weights": {"a": {"error": 0, "squares": 0, "parts": [[9, 0, 5]]}}, "values": {}})",
      head + R"("weights": {"a": {"error": 0, "squares": 0, "parts": [[-1, 0, 5]]}}, "values": {}})",
      head + R"("weights": {}, "values": {"a": [4, 4]}})",
      head + R"("weights": {}, "values": {"a": [0, 7]}})",
      head + R"("weights": {}, "values": {"a": [18446744073709551608, 16]}})"};
  for (size_t turn = 0; turn <= broken.size(); ++turn) {
    {
      auto s = checkpoint::weight_store::open(f / "work", "one");
      check_ok(s->put("a", codes(1), {}));
      check_ok(s->commit(2));
    }
    if (turn > 0) f.write("work/journal.json", broken[turn - 1]);
    auto s = checkpoint::weight_store::open(f / "work", turn == 0 ? "other" : "one");
    BOOST_TEST_REQUIRE(s.has_value());
    BOOST_TEST(s->steps() == 0U, turn);
    BOOST_TEST(s->prepared()->find("a") == nullptr);
    std::filesystem::remove_all(f / "work");
  }
}

BOOST_AUTO_TEST_CASE(changed_bytes_are_refused_before_anything_is_made_of_them) {
  const scratch_folder f;
  {
    auto s = checkpoint::weight_store::open(f / "work", "a purpose");
    check_ok(s->put("a", codes(1), {1, 4}));
    check_ok(s->put_values("b", std::vector<float>{1, 2, 3}));
    s->put_importance("a", {1, 2.5F});
    s->set_inputs_digest("of what is beside");
    check_ok(s->commit(3));
  }
  const auto weights = scratch_folder::read(f / "work/weights.bin");
  const auto journal = scratch_folder::read(f / "work/journal.json");
  const auto refused = [&](const std::string& words) {
    const auto s = checkpoint::weight_store::open(f / "work", "a purpose");
    BOOST_REQUIRE(!s.has_value());
    BOOST_TEST((s.error().kind == core::error_kind::bad_input));
    BOOST_TEST(s.error().text.find(words) != std::string::npos, s.error().text);
  };
  for (size_t at = 0; at < weights.size(); ++at) {
    auto changed = weights;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    f.write("work/weights.bin", changed);
    refused("do not match their digest: it was changed after it was written");
  }
  f.write("work/weights.bin", weights.substr(0, weights.size() - 1));
  refused("weights.bin is shorter than the journal states");
  f.write("work/weights.bin", weights);
  f.write("work/journal.json", replaced_once(journal, "2.5", "3.5"));
  refused("the journal does not match its digest");
  f.write("work/journal.json", journal);
  auto s = checkpoint::weight_store::open(f / "work", "a purpose");
  check_ok(s);
  BOOST_TEST(s->inputs_digest() == "of what is beside");
  check_ok(s->prepared());
  // A file that changes while the store is open is refused when it is opened again.
  auto changed = weights;
  changed[0] = static_cast<char>(changed[0] ^ 1);
  f.write("work/weights.bin", changed);
  BOOST_TEST(!checkpoint::weight_store::open(f / "work", "a purpose").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
