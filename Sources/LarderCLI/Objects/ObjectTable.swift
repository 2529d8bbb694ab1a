// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderCoding
import LarderDynamic

/// Objects as a table with one column for each field.
struct ObjectTable {
  private var names: [String] = []
  private var rows: [[String]] = []

  init(_ objects: [DynamicObject]) {
    var positions: [String: Int] = [:]
    for object in objects {
      var cells: [Int: String] = [:]
      guard case .map(let pairs) = object.value else {
        rows.append([Self.cell(object.value)])
        continue
      }
      for pair in pairs {
        guard case .text(let name) = pair.key else { continue }
        if positions[name] == nil {
          positions[name] = names.count
          names.append(name)
        }
        cells[positions[name]!] = Self.cell(pair.value)
      }
      rows.append((0..<names.count).map { cells[$0] ?? "" })
    }
    // The id is the first column.
    guard let id = positions["id"] else { return }
    names.insert(names.remove(at: id), at: 0)
    rows = rows.map { row in
      guard id < row.count else { return row }
      var row = row
      row.insert(row.remove(at: id), at: 0)
      return row
    }
  }

  private static func cell(_ value: CBORValue) -> String {
    switch value {
    case .text(let text): return text
    case .tagged(1, .float(let seconds)) where abs(seconds) < 1e11:
      return EntryValue.text(Date(timeIntervalSince1970: seconds))
    case .tagged(1001, .map(let pairs)):
      guard case .float(let seconds)? = pairs.first(where: { $0.key == .unsigned(1) })?.value else {
        return value.jsonText()
      }
      return cell(.tagged(1, .float(seconds)))
    case .tagged(37, .bytes(let bytes)): return KeyTextFormat.display(tag: .uuid, bytes: bytes)
    default: return value.jsonText()
    }
  }

  /// Returns the table. Cells are shortened to the width of a terminal.
  ///
  /// - Parameter width: The columns of the terminal, or nil for complete cells.
  func text(width: Int?) -> String {
    let all = ([names] + rows).map { row in row.map { TextLayout.shortened($0, to: .max) } }
    var widths = names.indices.map { column in
      all.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
    }
    if let width {
      widths = widths.map { min($0, max(width, 8)) }
      // The widest column is narrowed first, down to eight characters.
      while widths.reduce(0, { $0 + $1 + 2 }) - 2 > width, let widest = widths.max(), widest > 8 {
        widths[widths.firstIndex(of: widest)!] -= 1
      }
    }
    let cells = all.map { row in
      row.enumerated().map { column, cell in
        column < widths.count ? TextLayout.shortened(cell, to: widths[column]) : cell
      }
    }
    var text = ""
    for (number, row) in cells.enumerated() {
      var line = ""
      for (column, cell) in row.enumerated() {
        line += column == row.count - 1 ? cell : TextLayout.left(cell, width: widths[column] + 2)
      }
      while line.hasSuffix(" ") { line.removeLast() }
      text += (number == 0 ? Style.heading(line) : line) + "\n"
    }
    return text
  }
}
#endif
