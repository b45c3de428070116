// Tests pickles that are read as data, without execution: the meaning of opcodes, shared values, and refusals.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "formats/torch/pickle_reader.hpp"
#include "formats/torch/pickle_writer.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(pickle)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;
using namespace std::string_literals;

namespace {

/// Returns the values that a reader finds in a pickle, or the reason why it is refused.
std::string seen(const core::result<pickle_tree>& tree) {
  if (!tree) return tree.error().text;
  std::string out = fmt::to_string(tree->bytes_read());
  out.append(" ").append(fmt::to_string(tree->root()));
  for (pickle_ref v = 0; v < tree->size(); ++v) {
    out.append(" ").append(fmt::to_string(static_cast<int>(tree->kind(v))));
    if (tree->kind(v) == pickle_kind::text || tree->kind(v) == pickle_kind::bytes) out += tree->text(v);
    if (tree->kind(v) == pickle_kind::integer) out += fmt::to_string(tree->integer(v));
  }
  return out;
}

core::result<pickle_tree> read(std::string_view text) { return read_pickle(std::as_bytes(std::span(text))); }

/// Returns a pickle of protocol 2 with the given body.
std::string p2(const std::string& body) { return "\x80\x02" + body + "."; }

int64_t integer_of(const std::string& body) {
  const std::string text = p2(body);
  const auto tree = check_ok(read(text));
  BOOST_REQUIRE(tree->kind(tree->root()) == pickle_kind::integer);
  return tree->integer(tree->root());
}

void refused(const std::string& body, const std::string& words) {
  check_failed(read(p2(body)), core::error_kind::bad_input, words);
}

}  // namespace

BOOST_AUTO_TEST_CASE(whole_numbers_of_every_width_have_their_value) {
  BOOST_TEST(integer_of("K\xFF") == 255);
  BOOST_TEST(integer_of("M\xFF\xFF") == 65535);
  BOOST_TEST(integer_of("J\xFE\xFF\xFF\xFF") == -2);
  BOOST_TEST(integer_of("\x8a\0"s) == 0);
  BOOST_TEST(integer_of("\x8a\x01\xFF") == -1);
  BOOST_TEST(integer_of("\x8a\x02\x00\x80"s) == -32768);
  BOOST_TEST(integer_of("\x8a\x08\0\0\0\0\0\0\0\x80"s) == std::numeric_limits<int64_t>::min());
  BOOST_TEST(integer_of("\x8b\x02\0\0\0\x00\x01"s) == 256);
  const std::string magic = p2("\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");
  const auto tree = check_ok(read(magic));
  BOOST_TEST((tree->kind(tree->root()) == pickle_kind::big_integer));
  BOOST_TEST(tree->text(tree->root()).size() == 10U);
}

BOOST_AUTO_TEST_CASE(values_of_the_writer_are_read_back) {
  pickle_writer out;
  out.empty_dict();
  out.mark();
  out.text("a");
  out.mark();
  out.none();
  out.boolean(true);
  out.real(-0.125);
  out.integer(-1);
  out.integer(int64_t{1} << 40);
  out.end_tuple();
  out.integer(7);
  out.empty_list();
  out.mark();
  out.text("\xC3\xA9");
  out.end_items();
  out.end_pairs();
  const std::string text = out.finish();
  const auto tree = check_ok(read(text));
  BOOST_TEST(tree->bytes_read() == text.size());
  const auto a = check_ok(tree->find(tree->root(), "a"));
  const auto items = tree->items(*a);
  BOOST_REQUIRE(items.size() == 5U);
  BOOST_TEST((tree->kind(items[0]) == pickle_kind::none));
  BOOST_TEST(tree->boolean(items[1]));
  BOOST_TEST(tree->real(items[2]) == -0.125);
  BOOST_TEST(tree->integer(items[3]) == -1);
  BOOST_TEST(tree->integer(items[4]) == int64_t{1} << 40);
  const auto seven = check_ok(tree->find(tree->root(), int64_t{7}));
  BOOST_TEST(tree->text(tree->items(*seven)[0]) == "\xC3\xA9");
  BOOST_TEST(!tree->find(tree->root(), "b").has_value());
}

BOOST_AUTO_TEST_CASE(shared_values_stay_one) {
  const std::string text = p2("]q\0(]q\1h\1h\1e"s);
  const auto tree = check_ok(read(text));
  const auto items = tree->items(tree->root());
  BOOST_REQUIRE(items.size() == 3U);
  BOOST_TEST(items[0] == items[1]);
  BOOST_TEST(items[1] == items[2]);
}

BOOST_AUTO_TEST_CASE(calls_stay_uncalled) {
  const std::string text = p2("cposix\nsystem\nX\x04\0\0\0true\x85R"s);
  const auto tree = check_ok(read(text));
  BOOST_TEST(tree->is_call(tree->root(), "posix", "system"));
  BOOST_TEST(tree->global_name(tree->target(tree->root())) == "posix.system");
  BOOST_TEST(tree->text(tree->items(tree->args(tree->root()))[0]) == "true");
}

BOOST_AUTO_TEST_CASE(ordered_dicts_sets_and_bytes_are_plain_values) {
  const std::string text = p2("ccollections\nOrderedDict\n)Rq\0X\1\0\0\0kK\1s}X\1\0\0\0mNsb"s);
  const auto tree = check_ok(read(text));
  BOOST_TEST((tree->kind(tree->root()) == pickle_kind::dict));
  BOOST_TEST(tree->find(tree->root(), "k").has_value());
  BOOST_REQUIRE(tree->state(tree->root()).has_value());
  BOOST_TEST(tree->find(*tree->state(tree->root()), "m").has_value());

  const std::string set = p2("c__builtin__\nset\n](K\1K\2e\x85R");
  const auto members = check_ok(read(set));
  BOOST_TEST((members->kind(members->root()) == pickle_kind::set));
  BOOST_TEST(members->items(members->root()).size() == 2U);

  const std::string latin = p2("c_codecs\nencode\nX\3\0\0\0\x61\303\277X\6\0\0\0latin1\x86R"s);
  const auto bytes = check_ok(read(latin));
  BOOST_TEST((bytes->kind(bytes->root()) == pickle_kind::bytes));
  BOOST_TEST(bytes->text(bytes->root()) == "a\xFF");
}

BOOST_AUTO_TEST_CASE(protocol_4_is_read_as_protocol_2_is) {
  // pickle.dumps({'a': {1}, 'b': b'x'}, 4) in Python returns this text.
  const std::string text = "\x80\4\x95\x14\0\0\0\0\0\0\0}\x94(\x8c\1a\x94\x8f\x94(K\1\x90\x8c\1b\x94\103\1x\x94u."s;
  const auto tree = check_ok(read(text));
  BOOST_TEST((tree->kind(*tree->find(tree->root(), "a")) == pickle_kind::set));
  BOOST_TEST(tree->text(*tree->find(tree->root(), "b")) == "x");
}

BOOST_AUTO_TEST_CASE(lengths_beyond_the_file_are_refused_before_anything_is_allocated) {
  refused("\x8b\xFF\xFF\xFF\x7F", "are announced");
  refused("\x8b\xFF\xFF\xFF\xFF", "are announced");
  refused("X\xFF\xFF\xFF\xFFx", "are announced");
  refused("\x8d\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFx", "are announced");
  refused("\x95\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFN", "frame");
  refused("Nr\xFF\xFF\xFF\xFF", "memo place");
  refused("j\xFF\xFF\xFF\xFF", "holds nothing");
}

BOOST_AUTO_TEST_CASE(malformed_calls_and_foreign_opcodes_are_refused_with_their_place) {
  refused("K\1)R", "byte 5: a call of something that is not a name");
  refused("cos\nsystem\n]R", "not a tuple");
  refused("cos\n", "no end");
  refused("K\1K\1\x93", "not text");
  refused("K\1}b", "has none");
  refused("\x82\1", "0x82");  // opcode EXT1: an extension
  refused("Pabc\n", "0x50");  // opcode PERSID: a persistent id as text
  refused("\x97", "0x97");    // opcode NEXT_BUFFER: an out-of-band buffer
  refused("(}", "must leave one value");
  refused("K\1K\1", "must leave one value");
  refused("R", "values are wanted on the stack");
  refused("e", "a mark is wanted");
  refused("}(K\1u", "a key has no value");
  refused("K\1K\1a", "holds none");
  check_failed(read("\x80\x06N."), core::error_kind::bad_input, "protocol is 6");
  check_failed(read("\x80\x02N"), core::error_kind::bad_input, "ends in the middle");
  check_failed(read(""), core::error_kind::bad_input, "ends in the middle");
}

BOOST_AUTO_TEST_CASE(cycles_and_deep_nesting_are_refused) {
  refused("]q\0h\0a"s, "contains itself");
  refused("]q\0}K\1h\0sa"s, "contains itself");
  std::string tower = "N";
  for (int i = 0; i < 2000; ++i) tower += "\x85";
  refused(tower, "deeper than");
  std::string wide = "]";
  for (int i = 0; i < 500; ++i) wide += "]";
  for (int i = 0; i < 500; ++i) wide += "a";
  check_ok(read(p2(wide)));
}

BOOST_AUTO_TEST_CASE(a_bomb_of_shared_lists_stays_as_small_as_it_is_written) {
  std::string bomb = "]q\0"s;
  for (char i = 1; i < 100; ++i) bomb += "](h"s + static_cast<char>(i - 1) + "h" + static_cast<char>(i - 1) + "eq" + i;
  const std::string text = p2("(" + bomb + "t");
  const auto tree = check_ok(read(text));
  BOOST_TEST(tree->size() < text.size());
}

BOOST_AUTO_TEST_CASE(a_pickle_of_a_file_is_the_one_in_memory_however_long_it_is) {
  const scratch_folder at;
  const auto of = [](std::initializer_list<std::string_view> parts) {
    std::string out;
    for (const auto part : parts) out.append(part);
    return out;
  };
  std::string numbers;
  for (int i = 0; i < 40'000; ++i) numbers.append("J").append(3, static_cast<char>(i)).append("\x01");
  const auto text = [](uint32_t n) {
    std::string out("X");
    return out.append(reinterpret_cast<const char*>(&n), 4).append(n, 'x');
  };
  const std::string m(70'000, 'm'), n(70'000, 'n');
  const std::string_view front = "\x80\x02", tuple = "(", end = "t.", place("N\x94r\xFF\xFF\1\0", 7);
  const std::string cases[] = {
      of({front, "N."}),
      of({front, tuple, numbers, end}),  // an opcode spans every boundary between two blocks of a read
      // One text ends at a block's boundary, and the next one extends beyond another.
      of({front, tuple, text(65'527), text(300'000), end}), of({front, tuple, "c", m, "\n", n, "\n", numbers, end}),
      of({front, place, text(200'000), "0."}),  // the memo index is allowed only because the whole pickle is so long
      of({front, tuple, numbers}),              // the error is found after the first boundary
      of({front, "c", m, n}), of({front, "X\xFF\xFF\xFF\x0F", numbers}), ""};
  for (const auto& c : cases) {
    const auto path = at.write("pickle", of({"in front", c, "behind"}));
    const auto file = check_ok(core::source_file::open(path));
    const auto direct = read(c);
    const auto from_file = read_pickle(*file, 8, c.size());
    BOOST_TEST(seen(from_file) == seen(direct));
    auto moved = read_pickle(*file, 8, c.size());
    const auto taken = std::move(moved);
    BOOST_TEST(seen(taken) == seen(direct));
  }
  const auto file = check_ok(core::source_file::open(at.write("pickle", p2("N"))));
  check_failed(read_pickle(*file, 0, max_pickle_bytes + 1), core::error_kind::limit, "a pickle has at most");
}

BOOST_AUTO_TEST_SUITE_END()
