// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine

/// `larder explain`: the properties of an entry, or the reason why there is none.
struct ExplainCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "explain",
    abstract: "Show everything about a key: the entry, and its last changes.",
    discussion: """
      The entry with its size, expiration, tags and last use, and the changes of the key in the \
      change log, by process and time: so also which process removed it, or that the budget did. \
      The log begins with `larder watch`, or with `store.changes(since:)` of a program; without one \
      only the entry is known.

      The command changes nothing, not even the last use. The exit status is 1 if there is no value.

      EXAMPLES
        larder explain user/17
        larder explain 42 --key-type integer --namespace thumbnails --json
      """)

  @Option(
    name: .long,
    help: ArgumentHelp("The most changes to show.", valueName: "n"))
  var changes = 10

  @OptionGroup var key: KeyArguments
  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    guard changes >= 0 else { throw ValidationError("--changes is not negative.") }
  }

  func run() throws {
    var isStored = false
    try Console.reporting(json: arguments.json) {
      let encoded = try key.encodedKey()
      let store = try arguments.openForReading()
      defer { store.close() }
      let (logged, hasLog) = try store.core.loggedChanges(of: encoded, in: key.namespace)
      let entry = try store.core.description(of: encoded, in: key.space())
      isStored = entry?.isAbsent == false
      let last = Array(logged.suffix(changes))
      if arguments.json { return Console.json(value(entry, last, hasLog)) }
      try show(entry, hasLog) {
        if let expired = try expired(encoded, in: store) { return expired }
        return reason(logged.last, hasLog) + key.hint(in: store)
      }
      if last.contains(where: \.isKeyCut) {
        Console.line(
          "  The log has 256 bytes of a key: these may be changes of one that begins so.")
      }
      for change in last.reversed() {
        Console.line("  \(Timestamp(change.time).iso)  \(change.kind) by process \(change.pid)")
      }
    }
    if !isStored { throw Exit.negative }
  }

  /// Returns a sentence about a value that has expired and is kept, or `nil` if there is none.
  private func expired(_ encoded: EncodedKey, in store: SharedStore) throws -> String? {
    let lookup = try store.core.lookup(
      encoded, in: key.space(), includesKept: true, isRepeated: true)
    guard case .found(let kept) = lookup.outcome else { return nil }
    return
      "It expired at \(Timestamp(kept.expires).iso), and is kept for callers that are served an "
      + "expired value while it is computed again."
  }

  private func show(
    _ entry: EntryDescription?, _ hasLog: Bool, reason: () throws -> String
  ) rethrows {
    guard let entry else {
      return Console.line("There is no value of \(key.place). " + (try reason()))
    }
    Console.line(
      entry.isAbsent
        ? "It is stored that \(key.place) has no value." : "\(key.place) has a value.")
    func line(_ name: String, _ text: String) {
      Console.line("  " + TextLayout.left(name, width: 12) + text)
    }
    let codec = EntryValue.name(of: CodecIdentifier(rawValue: entry.codec))
    line("stored", "\(Timestamp(entry.created).iso), commit \(entry.commitVersion)")
    line("value", "\(TextLayout.grouped(entry.valueBytes)) bytes, \(codec)")
    line("budget", "\(TextLayout.grouped(entry.bytes)) bytes")
    line("expires", Timestamp(ifSet: entry.expires)?.iso ?? "never")
    line("last use", Timestamp(entry.lastUse).iso)
    if entry.isPinned { line("pinned", "it is never evicted") }
    if entry.tagCount > 0 { line("tags", "\(entry.tagCount)") }
    if !hasLog { line("changes", "not recorded; `larder watch` begins the change log") }
  }

  private func reason(_ last: StoreChange?, _ hasLog: Bool) -> String {
    guard hasLog else {
      return "The store has no change log, so the reason is not known; `larder watch` begins one."
    }
    guard let last else { return "The change log contains no change of it." }
    let place = "process \(last.pid) at \(Timestamp(last.time).iso)"
    switch last.kind {
    case .set: return "The value of \(place) has expired, or was removed by a tag."
    case .evicted: return "The budget had no room for it: it was evicted by \(place)."
    case .expired: return "It had expired, and was deleted by \(place)."
    case .cleared: return "Its namespace was cleared by \(place)."
    case .damaged: return "It was damaged, and was deleted by \(place)."
    default: return "It was removed by \(place)."
    }
  }

  private func value(
    _ entry: EntryDescription?, _ last: [StoreChange], _ hasLog: Bool
  ) -> CBORValue {
    var fields = key.fields + [("stored", .boolean(entry?.isAbsent == false))]
    if let entry {
      fields += [
        ("absent", .boolean(entry.isAbsent)), ("created", .text(Timestamp(entry.created).iso)),
        ("commit", .unsigned(entry.commitVersion)),
        ("codec", .text(EntryValue.name(of: CodecIdentifier(rawValue: entry.codec)))),
        ("bytes", CBORValue(entry.bytes)), ("valueBytes", CBORValue(entry.valueBytes)),
        ("expires", CBORValue(Timestamp(ifSet: entry.expires)?.iso)),
        ("lastUse", .text(Timestamp(entry.lastUse).iso)), ("pinned", .boolean(entry.isPinned)),
        ("tags", CBORValue(entry.tagCount)),
      ]
    }
    fields += [
      ("changeLog", .boolean(hasLog)),
      (
        "changes",
        .array(
          last.map { change in
            .object([
              ("kind", .text(change.kind.description)),
              ("time", .text(Timestamp(change.time).iso)), ("pid", CBORValue(Int(change.pid))),
              ("commit", .unsigned(change.commitVersion)), ("keyCut", .boolean(change.isKeyCut)),
            ])
          })
      ),
    ]
    return .object(fields)
  }
}
#endif
