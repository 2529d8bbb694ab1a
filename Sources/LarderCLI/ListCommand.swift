// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderEngine

/// `larder list`: the entries, without their values.
struct ListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list",
    abstract: "List entries: key, size, age, expiry, last use.",
    discussion: """
      A store has no order: --limit selects arbitrary entries, and the table is sorted by key. \
      Without --limit a table shows 100 entries, and --json shows all. SIZE and "bytes" are the \
      size that the budget counts; "valueBytes" is the size of the value. With --json each entry \
      is one line, in the order of the store, and memory is bounded. "key", "keyType" and \
      "namespace" name the entry in other commands; `larder remove --stdin` takes the lines.

      Listing changes neither the last use of an entry nor the hit ratio.

      EXAMPLES
        larder list --prefix user/ --limit 20
        larder list --namespace thumbnails --key-type integer
        larder list --json | jq -s 'map(.bytes) | add'
      """)

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp("Only this namespace. (default: all)", valueName: "name"))
  var namespace: String?

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp("Only keys whose text begins with this prefix.", valueName: "text"))
  var prefix = ""

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp("Only keys of this type.", valueName: "type"))
  var keyType: KeyKind?

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "The maximum number of entries. (default: 100 in a table, all with --json)",
      valueName: "count"))
  var limit: Int?

  private static let tableLimit = 100

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    guard limit ?? 1 > 0 else { throw ValidationError("--limit must be at least 1.") }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let space = try namespace.map { try NamespaceHandle(name: $0) }
      let store = try arguments.openForReading()
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
        Console.printError(
          "larder: There are more entries. Show them with --limit, or select with --prefix.")
      }
    }
  }

  private struct Row {
    let key: String
    let kind: KeyKind
    let info: EntryInfo
  }

  /// Calls a closure with each entry that the options select.
  ///
  /// - Returns: Whether no further entry matches.
  private func visit(
    _ core: StoreCore, _ space: NamespaceHandle?, _ body: (Row) -> Void
  ) throws -> Bool {
    var position: UInt64? = 0
    let limit = limit ?? (arguments.json ? .max : Self.tableLimit)
    var count = 0
    while let start = position {
      let (entries, next) = try core.page(of: space, from: start, limit: 256)
      for info in entries {
        if let keyType, !keyType.isRaw, keyType.tag.rawValue != info.key.tag { continue }
        let (key, kind) = KeyKind.shown(info.key)
        guard key.hasPrefix(prefix), keyType?.isRaw != true || kind.isRaw else { continue }
        if count == limit { return false }
        count += 1
        body(Row(key: key, kind: kind, info: info))
      }
      position = next
    }
    return true
  }

  private func json(_ row: Row, in namespace: String) -> CBORValue {
    let info = row.info
    return .object([
      ("key", .text(row.key)), ("keyType", .text(row.kind.description)),
      ("namespace", .text(namespace)),
      ("codec", .text(EntryValue.name(of: CodecIdentifier(rawValue: info.codec)))),
      ("bytes", CBORValue(info.bytes)), ("valueBytes", CBORValue(info.valueBytes)),
      ("created", .text(Timestamp(info.created).iso)),
      ("expires", CBORValue(Timestamp(ifSet: info.expires)?.iso)),
      ("lastUse", CBORValue(Timestamp(ifSet: info.lastUse)?.iso)),
      ("pinned", .boolean(info.isPinned)),
    ])
  }

  private func show(_ rows: [Row], _ names: [UInt32: String]) {
    guard !rows.isEmpty else {
      Console.printError("larder: No entry matches.")
      return
    }
    let now = Timestamp.now
    let showsNamespace = namespace == nil && Set(rows.map(\.info.namespace)).count > 1
    var columns: [Column] = [
      Column("VALUE", 8, isLeft: true) { EntryValue.name(of: CodecIdentifier(rawValue: $0.codec)) },
      Column("SIZE", 10) { "\(ByteCount(bytes: $0.bytes))" },
      Column("AGE", 10) { Timestamp($0.created).distance(from: now) },
      Column("EXPIRES", 10) { Timestamp(ifSet: $0.expires)?.distance(from: now) ?? "-" },
      Column("USED", 10) { Timestamp(ifSet: $0.lastUse)?.distance(from: now) ?? "-" },
    ]
    if showsNamespace {
      columns.insert(
        Column("NAMESPACE", 16, isLeft: true) {
          TextLayout.shortened(names[$0.namespace] ?? "", to: 14)
        }, at: 0)
    }
    // A terminal gets rows that fit its width, if necessary with fewer columns; a pipe gets full
    // keys.
    var room = Int.max
    if let width = Style.width {
      while columns.count > 1, width - columns.reduce(2, { $0 + $1.width }) < 14 {
        columns.removeLast()
      }
      room = max(8, width - columns.reduce(2) { $0 + $1.width })
    }
    let keys = rows.map { TextLayout.shortened($0.key, to: room) }
    // One long key in a pipe does not move the columns of all others.
    let longest = max(3, keys.map(\.count).max() ?? 0)
    let width = (room == .max ? min(longest, 40) : longest) + 2
    let heading = columns.reduce(TextLayout.left("KEY", width: width)) { $0 + $1.cell($1.title) }
    var text = Style.heading(heading) + "\n"
    for (key, row) in zip(keys, rows) {
      text += TextLayout.left(key, width: width)
      for column in columns { text += column.cell(column.value(row.info)) }
      text += "\n"
    }
    Console.write(text)
  }

  private struct Column {
    let title: String
    let width: Int
    let isLeft: Bool
    let value: (EntryInfo) -> String

    init(
      _ title: String, _ width: Int, isLeft: Bool = false, value: @escaping (EntryInfo) -> String
    ) {
      (self.title, self.width, self.isLeft, self.value) = (title, width, isLeft, value)
    }

    /// Returns the cell, separated from the one before it.
    func cell(_ text: String) -> String {
      isLeft ? TextLayout.left(text, width: width) : " " + TextLayout.right(text, width: width - 1)
    }
  }
}
#endif
