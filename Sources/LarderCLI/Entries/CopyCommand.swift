// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine
internal import LarderObjectEngine

/// `larder copy`: a copy of the store in another directory.
struct CopyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "copy",
    abstract: "Copy one snapshot of the store into another directory.",
    discussion: """
      The copy is a complete store: entries, objects, indexes and defaults. Other processes read \
      and write without waiting. The copy does not contain writes that follow its start.

      The copy has no free pages, so it is as small as possible. There must be no store at the \
      destination.

      EXAMPLES
        larder copy /var/backups/app
        larder copy --store /var/lib/app /mnt/app --json
      """)

  @Argument(
    help: ArgumentHelp("The directory of the copy; it is created.", valueName: "destination"),
    completion: .directory)
  var destination: String

  @OptionGroup var arguments: StoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.openForReading()
      defer { store.close() }
      try store.core.copy(to: destination)
      let copy = try SharedStore(
        at: destination, StoreOptions(durability: store.core.options.durability))
      defer { copy.close() }
      let (old, new) = (try store.statistics(), try copy.statistics())
      let objects = try DynamicObjects(copy).summary().types.reduce(0) { sum, type in
        sum + Int(clamping: type.books.count)
      }
      if arguments.json {
        Console.json(
          .object([
            ("path", .text(new.path)), ("entries", CBORValue(new.entries)),
            ("objects", CBORValue(objects)),
            ("fileBytes", CBORValue(new.fileBytes)), ("originalBytes", CBORValue(old.fileBytes)),
          ]))
      } else {
        Console.line(
          "Copied \(TextLayout.count(new.entries, "entry", "entries")) and "
            + "\(TextLayout.count(objects, "object", "objects")) to \(new.path): "
            + "\(ByteCount(bytes: new.fileBytes)), where the original has "
            + "\(ByteCount(bytes: old.fileBytes)).")
      }
    }
  }
}
#endif
