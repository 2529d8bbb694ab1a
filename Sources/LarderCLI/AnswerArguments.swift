// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser

/// The options of every command for the form of its answer.
struct AnswerArguments: ParsableArguments {
  @Flag(name: .long, help: "Write answers and errors as JSON.")
  var json = false

  @Option(
    name: .long,
    help: ArgumentHelp(
      """
      auto, always or never: whether text is coloured. auto: on a terminal, unless NO_COLOR is set \
      or TERM is dumb.
      """, valueName: "when"))
  var color = ColorChoice.auto

  func validate() { Style.choose(color) }
}
#endif
