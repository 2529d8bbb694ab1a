// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderCoding
import LarderEngine

/// `larder list`: the entries, without their values.
struct ListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list",
    abstract: "List entries: key, size, age, expiry, last use.",
    discussion: """
      A store keeps no order, so --limit shows any entries that many; what is shown is sorted by \
      key. Size is what the entry counts against the budget. With --json each entry is one line, \
      in the order of the store, and nothing is collected: any number of entries can be listed.

      Listing is no use of an entry: it changes neither its last use nor the hit ratio.

      EXAMPLES
        larder list --prefix user/ --limit 20
        larder list --namespace thumbnails --key-type integer
        larder list --json --limit 1000000 | jq -s 'map(.bytes) | add'
      """)

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp("Only this namespace. (default: all)", valueName: "name"))
  var namespace: String?

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp("Only keys whose text begins with this.", valueName: "text"))
  var prefix = ""

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp("Only keys of this type.", valueName: "type"))
  var keyType: KeyType?

  @Option(name: .shortAndLong, help: ArgumentHelp("Show at most this many.", valueName: "count"))
  var limit = 100

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    guard limit > 0 else { throw ValidationError("--limit must be at least 1.") }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let space = try namespace.map { try Space(name: $0) }
      let store = try arguments.openExisting()
      defer { store.close() }
      var names: [UInt32: String] = [:]
      for (number, record) in try store.core.namespaces() {
        names[number] = String(decoding: record.name, as: UTF8.self)
      }
      if arguments.json {
        _ = try visit(store.core, space) { row in
          Console.json(json(row, in: names[row.info.namespace] ?? ""), pretty: false)
        }
        return
      }
      var rows: [Row] = []
      let isComplete = try visit(store.core, space) { rows.append($0) }
      show(rows.sorted { $0.key < $1.key }, names)
      if !isComplete {
        Console.complain("There are more. Show them with --limit, or narrow with --prefix.")
      }
    }
  }

  private struct Row {
    let key: String
    let info: EntryInfo
  }

  /// Visits what the options select.
  ///
  /// - Returns: Whether that was all there is.
  private func visit(
    _ core: StoreCore, _ space: Space?, _ body: (Row) -> Void
  ) throws -> Bool {
    var position: UInt64? = 0
    var count = 0
    while let start = position {
      let (entries, next) = try core.page(of: space, from: start, limit: 256)
      for info in entries {
        let tag = KeyTag(rawValue: info.key.tag)
        if let keyType, keyType.tag != tag { continue }
        let key = KeyType.display(tag: tag, bytes: info.key.bytes)
        guard key.hasPrefix(prefix) else { continue }
        if count == limit { return false }
        count += 1
        body(Row(key: key, info: info))
      }
      position = next
    }
    return true
  }

  private func json(_ row: Row, in namespace: String) -> CBORValue {
    let info = row.info
    let type = KeyType.allCases.first { $0.tag.rawValue == info.key.tag }?.rawValue ?? "composite"
    return .object([
      ("key", .text(row.key)), ("keyType", .text(type)), ("namespace", .text(namespace)),
      ("codec", .text(EntryValue.name(of: CodecIdentifier(rawValue: info.codec)))),
      ("bytes", CBORValue(info.bytes)), ("created", .text(Moment(info.created).iso)),
      ("expires", CBORValue(Moment(ifSet: info.expires)?.iso)),
      ("lastUse", CBORValue(Moment(ifSet: info.lastUse)?.iso)),
    ])
  }

  private func show(_ rows: [Row], _ names: [UInt32: String]) {
    guard !rows.isEmpty else {
      Console.complain("There is no such entry.")
      return
    }
    let now = Moment.now
    // A terminal gets whole rows; a pipe whole keys.
    let showsNamespace = namespace == nil && Set(rows.map(\.info.namespace)).count > 1
    let room = Style.width.map { max(8, $0 - (showsNamespace ? 16 : 0) - 46) } ?? .max
    let width = max(3, min(room, rows.map(\.key.count).max() ?? 0)) + 2
    var text = Columns.left("KEY", width: width)
    if showsNamespace { text += Columns.left("NAMESPACE", width: 16) }
    text += Columns.left("VALUE", width: 8)
    for title in ["SIZE", "AGE", "EXPIRES", "USED"] { text += Columns.right(title, width: 9) }
    text = Style.heading(text) + "\n"
    for row in rows {
      let info = row.info
      text += Columns.left(Columns.shortened(row.key, to: room), width: width)
      if showsNamespace {
        text += Columns.left(
          Columns.shortened(names[info.namespace] ?? "", to: 14), width: 16)
      }
      text += Columns.left(
        EntryValue.name(of: CodecIdentifier(rawValue: info.codec)), width: 8)
      text += Columns.right("\(ByteCount(bytes: info.bytes))", width: 9)
      text += Columns.right(Moment(info.created).distance(from: now), width: 9)
      text += Columns.right(
        Moment(ifSet: info.expires)?.distance(from: now) ?? "-", width: 9)
      text += Columns.right(Moment(ifSet: info.lastUse)?.distance(from: now) ?? "-", width: 9)
      text += "\n"
    }
    Console.write(text)
  }
}
