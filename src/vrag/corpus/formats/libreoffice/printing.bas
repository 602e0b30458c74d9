' Prints a document to PDF as people see it, and stores its contents as OpenDocument.
'
' The document lies in the folder "document" beside the profile, and the results in the folder "out":
' "document.pdf" and "contents.zip". Where preparing it fails, it is printed as far as it is prepared; a document that cannot be
' opened leaves no file. Lengths are in hundredths of a millimetre.

Const MAX_COLUMN_WIDTH = 9000    ' beyond which text is wrapped
Const MAX_PAGE_WIDTH = 150000    ' beyond which a sheet is printed smaller
Const MAX_CELLS = 400000         ' beyond which the values of a sheet are not looked at
Const MAX_ROWS = 4000            ' beyond which the heights of rows are as they are
Const MAX_OVERFLOWING = 2000     ' cells whose text runs over their neighbours
Const MAX_MERGED_COLUMNS = 30     ' beyond the last contents, for the text of merged cells
Const ROWS_OF_A_PAGE = 30
Const TURNED_ROWS = 60           ' beyond which turned texts are not looked for
Const ALWAYS_STORED = " IF COMPARE "   ' fields of Word whose results are as the file has them; the others where it has some
Const STORED_FIELDS = " REF PAGEREF NOTEREF STYLEREF SEQ SECTION SECTIONPAGES SAVEDATE CREATEDATE PRINTDATE EDITTIME REVNUM NUMWORDS NUMCHARS "
Const MAX_PART_BYTES = 33554432  ' of a part of a Word file beyond which its fields are as LibreOffice computes them
Const CONTENTS = 23              ' numbers, dates, text and formulas, of com.sun.star.sheet.CellFlags

Sub PrintDocument(documentName)
  Dim folder, document
  On Error Goto Failed
  EnableReschedule False   ' nothing draws windows meanwhile: those of comments crash a LibreOffice without them
  folder = WorkFolder()
  KeepFieldResults folder & "document/" & documentName
  document = StarDesktop.loadComponentFromURL(folder & "document/" & documentName, "_blank", 0, LoadSettings())
  If Not IsNull(document) Then PrintOpened document, folder & "out/"
Failed:
  On Error Resume Next
  If Not IsNull(document) Then document.close(True)
  StarDesktop.terminate()
End Sub

Function WorkFolder()
  ' The address of the folder above the profile, whose folder "user" LibreOffice knows.
  Dim substitution, user
  substitution = createUnoService("com.sun.star.util.PathSubstitution")
  user = substitution.getSubstituteVariableValue("$(user)")
  WorkFolder = Left(user, Len(user) - Len("profile/user"))
End Function

Sub KeepFieldResults(address)
  ' Fields of a Word file show what Word last showed. LibreOffice would compute some of them anew, without what they refer to:
  ' their codes get a name that it does not know.
  Dim package, folder, names, n
  If LCase(Right(address, 5)) <> ".docx" And LCase(Right(address, 5)) <> ".docm" Then Exit Sub
  On Error Goto Failed
  package = createUnoService("com.sun.star.packages.Package")
  package.initialize(Array(address, NamedSetting("StorageFormat", "ZipFormat")))
  folder = package.getByHierarchicalName("word")
  names = folder.getElementNames()
  For n = 0 To UBound(names)
    If LCase(Right(names(n), 4)) = ".xml" Then KeepResultsIn folder.getByName(names(n))
  Next n
  package.commitChanges()
Failed:
End Sub

Sub KeepResultsIn(part)
  Dim stream, text, renamed, file, out
  If part.getPropertyValue("Size") > MAX_PART_BYTES Then Exit Sub
  stream = createUnoService("com.sun.star.io.TextInputStream")
  stream.setInputStream(part.getInputStream())
  stream.setEncoding("UTF-8")
  text = stream.readString(Array(), False)
  renamed = RenameCodes(RenameCodes(text, "<w:instrText", ">", "w:fldCharType=""end"""), "<w:fldSimple", "w:instr=""", "</w:fldSimple>")
  If renamed = text Then Exit Sub
  file = createUnoService("com.sun.star.io.TempFile")
  out = createUnoService("com.sun.star.io.TextOutputStream")
  out.setOutputStream(file.getOutputStream())
  out.setEncoding("UTF-8")
  out.writeString(renamed)
  out.flush()
  file.seek(0)
  part.setInputStream(file.getInputStream())
End Sub

Function RenameCodes(text, element, lead, closing)
  ' The text with a prefix before the codes that follow `lead` in an element.
  Dim parts, n, start, code
  parts = Split(text, element)
  For n = 1 To UBound(parts)
    start = InStr(1, parts(n), lead, 0)
    If start > 0 Then
      start = start + Len(lead)
      code = FirstWord(Mid(parts(n), start, 40))
      If InStr(1, ALWAYS_STORED, " " & code & " ", 0) > 0 Or (InStr(1, STORED_FIELDS, " " & code & " ", 0) > 0 And HasResult(parts(n), start, closing)) Then
        parts(n) = Left(parts(n), start - 1) & "STORED_" & LTrim(Mid(parts(n), start))
      End If
    End If
  Next n
  RenameCodes = Join(parts, element)
End Function

Function FirstWord(text)
  Dim word, last
  word = LTrim(text)
  last = InStr(1, word, " ", 0)
  If last > 0 Then word = Left(word, last - 1)
  last = InStr(1, word, "<", 0)
  If last > 0 Then word = Left(word, last - 1)
  last = InStr(1, word, """", 0)
  If last > 0 Then word = Left(word, last - 1)
  FirstWord = UCase(word)
  If word = "" Then FirstWord = "-"
End Function

Function HasResult(part, start, closing) As Boolean
  ' Whether a text follows before the end of the field.
  Dim last, first
  last = InStr(start, part, closing, 0)
  first = InStr(start, part, "<w:t>", 0)
  If first = 0 Then first = InStr(start, part, "<w:t ", 0)
  HasResult = False
  If first > 0 And first < last Then HasResult = (Mid(part, InStr(first, part, ">", 0) + 1, 6) <> "</w:t>")
End Function

Function NamedSetting(key, content)
  Dim made As New com.sun.star.beans.NamedValue
  made.Name = key
  made.Value = content
  NamedSetting = made
End Function

Function LoadSettings()
  ' No window, no macro of the document, no link of it followed.
  LoadSettings = Array(Setting("Hidden", True), Setting("MacroExecutionMode", 0), Setting("UpdateDocMode", 0))
End Function

Function Setting(key, content)
  Dim made As New com.sun.star.beans.PropertyValue
  made.Name = key
  made.Value = content
  Setting = made
End Function

Sub PrintOpened(document, folder)
  If document.supportsService("com.sun.star.sheet.SpreadsheetDocument") Then
    PrepareSheets document
    StorePages document, "calc_pdf_Export", folder
    NotePageBreaks document
    StoreDocument document, "calc8", folder & "contents.zip"
  ElseIf document.supportsService("com.sun.star.presentation.PresentationDocument") Then
    StorePages document, "impress_pdf_Export", folder
    StoreDocument document, "impress8", folder & "contents.zip"
  ElseIf document.supportsService("com.sun.star.text.TextDocument") Then
    AcceptChanges document
    ShortenFileNames document.TextFields
    StorePages document, "writer_pdf_Export", folder
    StoreDocument document, "writer8", folder & "contents.zip"
  ElseIf document.supportsService("com.sun.star.text.WebDocument") Then
    StorePages document, "writer_web_pdf_Export", folder
  Else
    StorePages document, "draw_pdf_Export", folder
  End If
End Sub

Sub StoreDocument(document, filterName, address)
  document.storeToURL(address, Array(Setting("FilterName", filterName)))
End Sub

Sub StorePages(document, filterName, folder)
  ' The file has its name when it is complete: what comes after may fail.
  StoreDocument document, filterName, folder & "printing.pdf"
  Name folder & "printing.pdf" As folder & "document.pdf"
End Sub

Sub AcceptChanges(document)
  Dim dispatcher
  On Error Resume Next
  document.RecordChanges = False
  If Not document.Redlines.createEnumeration().hasMoreElements() Then Exit Sub
  dispatcher = createUnoService("com.sun.star.frame.DispatchHelper")
  dispatcher.executeDispatch(document.CurrentController.Frame, ".uno:AcceptAllTrackedChanges", "", 0, Array())
End Sub

Sub ShortenFileNames(fields)
  ' The folder of our copy is none of the document: where its path is printed, the name alone is.
  Dim listed, field
  On Error Resume Next
  listed = fields.createEnumeration()
  Do While listed.hasMoreElements()
    field = listed.nextElement()
    If field.PropertySetInfo.hasPropertyByName("FileFormat") Then
      If field.FileFormat = 0 Then field.FileFormat = 3   ' FULL and NAME_AND_EXT, of com.sun.star.text.FilenameDisplayFormat
      If field.FileFormat = 1 Then                        ' PATH
        field.IsFixed = True
        field.CurrentPresentation = ""
      End If
      field.update()
    End If
  Loop
End Sub

Sub ShortenInMargins(style)
  ' The headers and footers of a sheet.
  Dim names, n, content
  On Error Resume Next
  names = Array("RightPageHeaderContent", "LeftPageHeaderContent", "FirstPageHeaderContent", "RightPageFooterContent", "LeftPageFooterContent", "FirstPageFooterContent")
  For n = 0 To UBound(names)
    content = style.getPropertyValue(names(n))
    ShortenFileNames content.LeftText.getTextFields()
    ShortenFileNames content.CenterText.getTextFields()
    ShortenFileNames content.RightText.getTextFields()
    style.setPropertyValue(names(n), content)
  Next n
End Sub

Sub PrepareSheets(document)
  Dim n, sheet
  On Error Resume Next
  For n = 0 To document.Sheets.Count - 1
    sheet = document.Sheets.getByIndex(n)
    If sheet.IsVisible Then PrepareSheet document, sheet
  Next n
End Sub

Sub NotePageBreaks(document)
  ' The rows at which pages begin, and the one after the last, in the properties of the contents.
  Dim n, sheet
  On Error Resume Next
  For n = 0 To document.Sheets.Count - 1
    sheet = document.Sheets.getByIndex(n)
    If sheet.IsVisible Then
      document.DocumentProperties.UserDefinedProperties.addProperty("vrag rows " & n, 128, PageRows(sheet))
    End If
  Next n
End Sub

Function PageRows(sheet)
  ' The rows as text: "0 47 92 121". LibreOffice has breaks for all rows of a sheet, used or not.
  Dim areas, breaks, n
  areas = sheet.getPrintAreas()
  breaks = sheet.getRowPageBreaks()
  PageRows = areas(0).StartRow & " "
  For n = 0 To UBound(breaks)
    If breaks(n).Position > areas(0).EndRow Then Exit For
    If breaks(n).Position > areas(0).StartRow Then PageRows = PageRows & breaks(n).Position & " "
  Next n
  PageRows = PageRows & (areas(0).EndRow + 1)
End Function

Sub PrepareSheet(document, sheet)
  ' All columns on one page, wide enough for what they say, and no page without contents.
  Dim used, area, values, style
  used = UsedRange(sheet)
  area = sheet.getCellRangeByPosition(used.StartColumn, used.StartRow, used.EndColumn, used.EndRow)
  values = Array()
  If CDbl(area.Rows.Count) * area.Columns.Count <= MAX_CELLS Then values = area.getDataArray()
  WidenColumns area, values
  If area.Rows.Count <= MAX_ROWS Then GrowRows area
  used = UsedRange(sheet)   ' drawings may now end at other cells
  TrimRange used, values, sheet
  area = sheet.getCellRangeByPosition(used.StartColumn, used.StartRow, used.EndColumn, used.EndRow)
  style = document.StyleFamilies.getByName("PageStyles").getByName(sheet.PageStyle)
  style.PageScale = 100
  style.ScaleToPagesX = 1
  style.ScaleToPagesY = 0
  style.PrintGrid = True
  ShortenInMargins style
  FitPaper style, area.Size.Width
  sheet.removeAllManualPageBreaks()
  sheet.setPrintAreas(Array(used))
  RepeatHead document, sheet, used, values
End Sub

Function UsedRange(sheet)
  ' The smallest range with all contents and drawings.
  Dim used As New com.sun.star.table.CellRangeAddress
  Dim ranges, shape, n, isFirst
  ranges = sheet.queryContentCells(CONTENTS).RangeAddresses
  used.Sheet = sheet.RangeAddress.Sheet
  isFirst = True
  For n = 0 To UBound(ranges)
    If Not IsBlankCell(sheet, ranges(n)) Then
      IncludeRange used, ranges(n), isFirst
      isFirst = False
    End If
  Next n
  For n = 0 To sheet.DrawPage.Count - 1
    shape = sheet.DrawPage.getByIndex(n)
    If shape.ShapeType <> "com.sun.star.drawing.CaptionShape" Then
      IncludeRange used, ShapeRange(sheet, shape), isFirst
      isFirst = False
    End If
  Next n
  IncludeMergedColumns sheet, used
  UsedRange = used
End Function

Function IsBlankCell(sheet, place) As Boolean
  ' A cell by itself with nothing but spaces, such as one that was left in the last row of a sheet.
  IsBlankCell = False
  If place.StartColumn <> place.EndColumn Or place.StartRow <> place.EndRow Then Exit Function
  IsBlankCell = (Trim(sheet.getCellByPosition(place.StartColumn, place.StartRow).String) = "")
End Function

Sub IncludeMergedColumns(sheet, used)
  ' The columns of cells that are merged beyond the last contents: a title may stand there.
  Dim cursor, last
  cursor = sheet.createCursorByRange(sheet.getCellRangeByPosition(used.StartColumn, used.StartRow, used.EndColumn, used.EndRow))
  cursor.collapseToMergedArea()
  last = cursor.RangeAddress.EndColumn
  If last - used.EndColumn <= MAX_MERGED_COLUMNS Then used.EndColumn = last
End Sub

Sub IncludeRange(used, more, isFirst)
  If isFirst Or more.StartColumn < used.StartColumn Then used.StartColumn = more.StartColumn
  If isFirst Or more.StartRow < used.StartRow Then used.StartRow = more.StartRow
  If isFirst Or more.EndColumn > used.EndColumn Then used.EndColumn = more.EndColumn
  If isFirst Or more.EndRow > used.EndRow Then used.EndRow = more.EndRow
End Sub

Function ShapeRange(sheet, shape)
  ' The cells below a drawing.
  Dim found As New com.sun.star.table.CellRangeAddress
  found.StartColumn = IndexAt(sheet.Columns, shape.Position.X, True)
  found.EndColumn = IndexAt(sheet.Columns, shape.Position.X + shape.Size.Width, True)
  found.StartRow = IndexAt(sheet.Rows, shape.Position.Y, False)
  found.EndRow = IndexAt(sheet.Rows, shape.Position.Y + shape.Size.Height, False)
  ShapeRange = found
End Function

Function IndexAt(lines, distance, isColumn)
  ' The column or row at a distance from the start, found by halves.
  Dim low, high, middle, corner
  low = 0
  high = lines.Count - 1
  Do While low < high
    middle = Int((low + high + 1) / 2)
    corner = lines.getByIndex(middle).getCellByPosition(0, 0).Position
    If (isColumn And corner.X <= distance) Or (Not isColumn And corner.Y <= distance) Then
      low = middle
    Else
      high = middle - 1
    End If
  Loop
  IndexAt = low
End Function

Sub WidenColumns(area, values)
  ' No number is printed as ###, and no text ends where its neighbour begins. Titles that run over empty
  ' cells do not count: they are wrapped while columns are measured.
  Dim overflowing, column, before, n
  overflowing = OverflowingCells(area, values)
  For n = 0 To UBound(overflowing)
    overflowing(n).IsTextWrapped = True
  Next n
  For n = 0 To area.Columns.Count - 1
    column = area.Columns.getByIndex(n)
    If column.IsVisible Then
      before = column.Width
      column.OptimalWidth = True
      If column.Width < before Then column.Width = before
      If column.Width > before And column.Width > MAX_COLUMN_WIDTH Then
        If before > MAX_COLUMN_WIDTH Then column.Width = before Else column.Width = MAX_COLUMN_WIDTH
        WrapColumn area.getCellRangeByPosition(n, 0, n, area.Rows.Count - 1)
      End If
    End If
  Next n
  For n = 0 To UBound(overflowing)
    LetOverflow area, values, overflowing(n)
  Next n
End Sub

Sub WrapColumn(cells)
  ' All texts but turned ones near the top, such as the names of columns: these would be wrapped at the height of their row.
  Dim turned(TURNED_ROWS)
  Dim n, last
  last = cells.Rows.Count - 1
  If last > TURNED_ROWS Then last = TURNED_ROWS
  For n = 0 To last
    turned(n) = IsTurned(cells.getCellByPosition(0, n))
  Next n
  cells.IsTextWrapped = True
  For n = 0 To last
    If turned(n) Then cells.getCellByPosition(0, n).IsTextWrapped = False
  Next n
End Sub

Function IsTurned(cell) As Boolean
  ' A text that runs up or down, in one line.
  IsTurned = (cell.RotateAngle <> 0 And Not cell.IsTextWrapped And InStr(cell.String, Chr(10)) = 0)
End Function

Sub LetOverflow(area, values, cell)
  ' Text that has room runs over its neighbours again; other text stays wrapped, in a wider column.
  Dim place, column, needed
  place = cell.CellAddress
  column = area.Columns.getByIndex(place.Column - area.RangeAddress.StartColumn)
  needed = TextWidth(cell)
  If cell.IsMerged Or needed < RoomFor(area, values(place.Row - area.RangeAddress.StartRow), cell) Then
    cell.IsTextWrapped = False
  ElseIf column.Width < MAX_COLUMN_WIDTH Then
    If needed > MAX_COLUMN_WIDTH Then needed = MAX_COLUMN_WIDTH
    If column.Width < needed Then column.Width = needed
  End If
End Sub

Function TextWidth(cell)
  ' Letters take somewhat more than half their height on average; a point is 35.28 hundredths of a millimetre.
  TextWidth = Len(cell.String) * cell.CharHeight * 35.28 * 0.55
End Function

Function RoomFor(area, cells, cell)
  ' The width of a cell's column and of the empty ones beside it.
  Dim first, n, room
  first = cell.CellAddress.Column - area.RangeAddress.StartColumn
  room = area.Columns.getByIndex(first).Width
  For n = first + 1 To UBound(cells)
    If VarType(cells(n)) <> 8 Then Exit For
    If cells(n) <> "" Then Exit For
    If area.Columns.getByIndex(n).IsVisible Then room = room + area.Columns.getByIndex(n).Width
  Next n
  RoomFor = room
End Function

Function OverflowingCells(area, values)
  ' Cells with text beyond their column and an empty one beside them, and merged ones.
  Dim found()
  Dim row, column, cells, count, cell
  count = 0
  ReDim found(MAX_OVERFLOWING)
  For row = 0 To UBound(values)
    cells = values(row)
    For column = 0 To UBound(cells) - 1
      If VarType(cells(column)) = 8 Then
        If Len(cells(column)) > 6 And VarType(cells(column + 1)) = 8 Then
          If cells(column + 1) = "" And count < MAX_OVERFLOWING Then
            cell = area.getCellByPosition(column, row)
            If cell.IsMerged Or (Not cell.IsTextWrapped And TextWidth(cell) * 0.7 > area.Columns.getByIndex(column).Width) Then
              found(count) = cell
              count = count + 1
            End If
          End If
        End If
      End If
    Next column
  Next row
  If count = 0 Then
    OverflowingCells = Array()
  Else
    ReDim Preserve found(count - 1)
    OverflowingCells = found
  End If
End Function

Sub GrowRows(area)
  ' Every line of a wrapped text is seen.
  Dim n, row, before
  For n = 0 To area.Rows.Count - 1
    row = area.Rows.getByIndex(n)
    If row.IsVisible Then
      before = 0
      If Not row.OptimalHeight Then before = row.Height
      row.OptimalHeight = True
      If row.Height < before Then row.Height = before
    End If
  Next n
End Sub

Sub TrimRange(used, values, sheet)
  ' Without rows at the end whose formulas give nothing.
  Dim shapes
  shapes = sheet.DrawPage.Count
  If shapes > 0 Then Exit Sub
  Do While used.EndRow > used.StartRow And used.EndRow - used.StartRow = UBound(values)
    If CountFilled(values(UBound(values))) > 0 Then Exit Do
    ReDim Preserve values(UBound(values) - 1)
    used.EndRow = used.EndRow - 1
  Loop
End Sub

Function CountFilled(cells)
  Dim n, count
  count = 0
  For n = 0 To UBound(cells)
    If VarType(cells(n)) <> 8 Then
      count = count + 1
    ElseIf cells(n) <> "" Then
      count = count + 1
    End If
  Next n
  CountFilled = count
End Function

Sub FitPaper(style, width)
  ' Paper as wide as the columns, for all sheets of the style.
  Dim paper, needed
  paper = style.Size
  needed = width + style.LeftMargin + style.RightMargin + 200
  If needed > MAX_PAGE_WIDTH Then needed = MAX_PAGE_WIDTH
  If needed <= paper.Width Then Exit Sub
  paper.Width = needed
  If paper.Height < 0.7 * needed Then paper.Height = 0.7 * needed
  style.Size = paper
End Sub

Sub RepeatHead(document, sheet, used, values)
  ' The row with the names of the columns stands on each page of a sheet that is one table.
  Dim head As New com.sun.star.table.CellRangeAddress
  Dim row, headRow
  If sheet.getPrintTitleRows() Or UBound(values) < ROWS_OF_A_PAGE Then Exit Sub
  headRow = -1
  For row = 0 To UBound(values)
    If headRow >= 0 Then
      If CountFilled(values(row)) = 0 Then Exit Sub
    ElseIf row > 9 Then
      Exit Sub
    ElseIf IsHead(document, sheet, used, values, row) Then
      headRow = row
    End If
  Next row
  If headRow < 0 Then Exit Sub
  head.Sheet = used.Sheet
  head.StartColumn = used.StartColumn
  head.EndColumn = used.EndColumn
  head.StartRow = used.StartRow + headRow
  head.EndRow = head.StartRow
  sheet.setTitleRows(head)
  sheet.setPrintTitleRows(True)
End Sub

Function IsHead(document, sheet, used, values, row)
  ' Names, years and dates alone, of most columns and of two at least.
  Dim cells, n, count
  cells = values(row)
  count = 0
  For n = 0 To UBound(cells)
    If VarType(cells(n)) <> 8 Then
      If Not IsPeriodAboveOthers(document, sheet, used, values, row, n) Then
        IsHead = False
        Exit Function
      End If
      count = count + 1
    ElseIf cells(n) <> "" Then
      count = count + 1
    End If
  Next n
  IsHead = count >= 2 And count * 10 >= (UBound(cells) + 1) * 6
End Function

Function IsPeriodAboveOthers(document, sheet, used, values, row, n)
  ' A year or a date behind the first column, below which stands something else.
  IsPeriodAboveOthers = False
  If n = 0 Or row = UBound(values) Then Exit Function
  If Not IsPeriod(document, sheet, used, values, row, n) Then Exit Function
  IsPeriodAboveOthers = Not IsPeriod(document, sheet, used, values, row + 1, n)
End Function

Function IsPeriod(document, sheet, used, values, row, n)
  Dim cell, value
  IsPeriod = False
  value = values(row)(n)
  If VarType(value) = 8 Then Exit Function
  cell = sheet.getCellByPosition(used.StartColumn + n, used.StartRow + row)
  If (document.NumberFormats.getByKey(cell.NumberFormat).Type And 2) <> 0 Then   ' DATE, of com.sun.star.util.NumberFormat
    IsPeriod = True
  Else
    IsPeriod = value = Int(value) And value >= 1900 And value <= 2100
  End If
End Function
