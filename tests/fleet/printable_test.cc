#include "tessera/trials/fleet/printable.h"

#include <gtest/gtest.h>

namespace tessera::fleet {
namespace {

TEST(Printable, WhatMakesATerminalDoThingsIsReplaced) {
  EXPECT_EQ(printable("build7-4711"), "build7-4711");
  EXPECT_EQ(printable("\x1b[2Jgone\x07"), "?[2Jgone?");
  EXPECT_EQ(printable("a\r\nb\tc\x7f"), "a??b?c?");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "?2J")
      << "the same in one character of Unicode";
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "?2J")
      << "... and in one byte";
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "eman"),
            "?eman")
      << "written backwards";
}

TEST(Printable, LettersOfAllLanguagesStay) {
  const std::string text = "J\xc3\xa9r\xc3\xb4me \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80\xc2\xa0";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable("\xc3"), "?") << "half a letter";
  EXPECT_EQ(printable("\xe0\x80\x80"), "???");
}

TEST(Printable, LinesOfAReasonStay) {
  EXPECT_EQ(printable_lines("one\n\ttwo\x1b[0m\r"), "one\n\ttwo?[0m?");
}

}  // namespace
}  // namespace tessera::fleet
