// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderEngine

/// `larder compact`: returns free pages to the disk.
struct CompactCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "compact",
    abstract: "Return the free pages of a store to the disk.",
    discussion: """
      Copies the store into new files without free pages; all processes switch to them. Writers wait \
      during the copy, readers do not. The disk needs space for the copy. `larder stat --why-big` \
      shows how much is free.

      EXAMPLES
        larder compact
        larder compact /var/tmp/app --json
      """)

  @Argument(help: "The store's directory; the same as --store.")
  var path: String?

  @OptionGroup var arguments: StoreArguments

  func validate() throws { try arguments.refuse(second: path) }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.at(path).openExisting()
      defer { store.close() }
      let before = try store.statistics()
      try store.compact()
      let after = try store.statistics()
      if arguments.json {
        Console.json(
          .object([
            ("path", .text(after.path)), ("originalBytes", CBORValue(before.fileBytes)),
            ("fileBytes", CBORValue(after.fileBytes)), ("generation", .unsigned(after.generation)),
          ]))
      } else {
        Console.line(
          "Compacted \(after.path) from \(ByteCount(bytes: before.fileBytes)) to "
            + "\(ByteCount(bytes: after.fileBytes)).")
      }
    }
  }
}
#endif
