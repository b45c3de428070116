// Tests the sentences of `troupe simulate --fault`: the fault that each means, and what is no sentence.
#include "apps/simulate/fault_sentence.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>

BOOST_AUTO_TEST_SUITE(fault_sentence)

using namespace troupe;

BOOST_AUTO_TEST_CASE(each_sentence_means_one_fault) {
  const std::pair<const char*, const char*> all[] = {
      {"rank 3 dies", "kill rank 3"},
      {"rank 3 dies at step 10", "kill rank 3 in step 10"},
      {"rank 3 dies in step 10", "kill rank 3 in step 10"},
      {"rank 0 dies at 20 ms", "kill rank 0 at 20000000 ns"},
      {"rank 1 dies when backward block 1, micro 0 starts", "kill rank 1 when 'backward block 1, micro 0' starts"},
      {"rank 1 dies when backward block 1 starts in step 2", "kill rank 1 in step 2 when 'backward block 1' starts"},
      {"host 1 dies at step 2", "kill host 1 in step 2"},
      {"rank 1 freezes at step 2 for 5 s", "freeze rank 1 for 5000000000 ns in step 2"},
      {"rank 1 freezes for 1min at step 2", "freeze rank 1 for 60000000000 ns in step 2"},
      {"host 0 freezes for 3us", "freeze host 0 for 3000 ns"},
      {"rank 2 is 1.5 times slower", "slow rank 2 by 1.5"},
      {"host 2 is 3 times slower at step 1", "slow host 2 by 3 in step 1"},
      {"link 0-1 is 10 times slower", "slow link of hosts 0 and 1 by 10"},
      {"link 0-1 is 2 ms late", "late link of hosts 0 and 1 for 2000000 ns"},
      {"link 0-1 is cut", "cut link of hosts 0 and 1 for ever"},
      {"link 0-1 is cut for 2 ms at step 2", "cut link of hosts 0 and 1 for 2000000 ns in step 2"},
      {"link 1-0 is cut at 5 ms for 2 s", "cut link of hosts 1 and 0 for 2000000000 ns at 5000000 ns"},
      {"the disk is full at step 4", "full_disk rank 0 in step 4"},
      {"the disk is full on rank 1", "full_disk rank 1"},
      {"the disk is 100 times slower", "slow_disk by 100"},
      {"disk freezes for 80 ms at 5 ns", "freeze_disk for 80000000 ns at 5 ns"},
      {"a message is 1 ms late at step 2", "late_message for 1000000 ns in step 2"},
      {"instruction update 0 is 3 times slower on rank 1 in step 2", "slow 'update 0' by 3 on rank 1 in step 2"},
      {"instruction gather block 1, forward is lost", "lose 'gather block 1, forward'"},
      {"  instruction   vote  is 10 ms late ", "late 'vote' for 10000000 ns"},
  };
  for (const auto& [text, means] : all) {
    BOOST_TEST_CONTEXT(text) {
      const auto read = apps::read_fault(text);
      BOOST_TEST_REQUIRE(read.has_value(), (read ? std::string() : read.error().text));
      BOOST_TEST(read->fault.describe() == means);
    }
  }
  const auto read = apps::read_fault(" rank  3 dies\tat step 10 ");
  BOOST_TEST_REQUIRE(read.has_value());
  BOOST_TEST(read->text == "rank 3 dies at step 10");
  BOOST_TEST(read->step == 10U);
  BOOST_TEST(apps::read_fault("rank 3 dies at 2 s")->step == 0U);
}

BOOST_AUTO_TEST_CASE(what_is_no_sentence_is_refused_at_its_first_wrong_word) {
  const std::pair<const char*, const char*> all[] = {
      {"",
       "--fault '': wanted 'rank N', 'host N', 'link A-B', 'the disk', 'a message' or 'instruction NAME' first, got "
       "the end (docs/simulation.md lists the sentences)"},
      {"ranks 3 die", "first, got 'ranks'"},
      {"rank three dies", "wanted the number of a rank after 'rank', got 'three'"},
      {"rank -1 dies", "got '-1'"},
      {"rank 4294967296 dies", "got '4294967296'"},
      {"rank 3", "wanted 'dies', 'freezes for TIME' or 'is F times slower' after 'rank 3', got the end"},
      {"rank 3 explodes", "after 'rank 3', got 'explodes'"},
      {"rank 3 is lost", "wanted 'dies', 'freezes for TIME' or 'is F times slower' after 'rank 3', got 'is'"},
      {"rank 3 is 2 ms late", "after 'rank 3', got 'is'"},
      {"rank 3 is 0.5 times slower", "wanted a factor from 1 to 1000000 after 'rank 3 is', got '0.5'"},
      {"rank 3 is inf times slower", "after 'rank 3', got 'is'"},
      {"rank 3 is 2 times faster", "wanted 'slower' after 'rank 3 is 2 times', got 'faster'"},
      {"rank 3 dies at step 0", "wanted the number of a step, from 1 after 'rank 3 dies at step', got '0'"},
      {"rank 3 dies at step", "got the end"},
      {"rank 3 dies at 5", "wanted one of the units ns, us, ms, s and min after 'rank 3 dies at 5', got the end"},
      {"rank 3 dies at 5 weeks", "got 'weeks'"},
      {"rank 3 dies at -5 ms", "wanted a time such as '20 ms' after 'rank 3 dies at', got '-5'"},
      {"rank 3 dies at 1e9 s", "wanted a time of at most 1000000 s"},
      {"rank 3 dies in 5 ms", "wanted 'step' after 'rank 3 dies in', got '5'"},
      {"rank 3 dies at step 1 at step 2", "wanted one moment after 'rank 3 dies at step 1', got 'at'"},
      {"rank 3 dies for 5 ms", "wanted a moment such as 'at step N' or the end after 'rank 3 dies', got 'for'"},
      {"rank 3 freezes", "wanted 'for' and a time after 'rank 3 freezes', got the end"},
      {"rank 3 dies when starts", "wanted the name of an instruction"},
      {"rank 3 dies when vote", "wanted 'starts' after 'rank 3 dies when vote', got the end"},
      {"host 1 dies when vote starts", "got 'when'"},
      {"link 0 is 10 times slower", "wanted two hosts such as 0-1 after 'link', got '0'"},
      {"link 0-1 dies", "wanted 'is F times slower', 'is TIME late' or 'is cut' after 'link 0-1', got 'dies'"},
      {"link 0-1 is cut off", "wanted a moment such as 'at step N' or 'for TIME' or the end after 'link 0-1 is cut'"},
      {"the disk dies", "wanted 'is full', 'is F times slower' or 'freezes for TIME' after 'the disk', got 'dies'"},
      {"the disk is full on host 1", "wanted 'rank' after 'the disk is full on', got 'host'"},
      {"a message is lost", "wanted 'is TIME late' after 'a message', got 'is'"},
      {"a message is 3 times slower", "wanted a time after 'a message is', got '3'"},
      {"a disk is full", "wanted 'message' after 'a', got 'disk'"},
      {"instruction is lost", "wanted the name of an instruction after 'instruction', got 'is'"},
      {"instruction vote dies", "after 'instruction vote dies', got the end"},
      {"instruction vote is lost at step 1 twice", "or 'on rank N' or the end after"},
  };
  for (const auto& [text, why] : all) {
    BOOST_TEST_CONTEXT(text) {
      const auto read = apps::read_fault(text);
      BOOST_TEST_REQUIRE(!read.has_value());
      BOOST_TEST((read.error().kind == core::error_kind::bad_input));
      BOOST_TEST(read.error().text.find(why) != std::string::npos, read.error().text);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
