package roman
import ("testing";"fmt")
func TestX(t *testing.T){
 all,err:=Builtin(); if err!=nil{t.Fatal(err)}
 c:=all[General]
 for _,y:=range []int{2024,2008,2022}{
 yr:=c.Year(y)
 for _,d:=range yr.Days(){ p:=d.Principal(); fmt.Println(d.Date.Format("2006-01-02 Mon"),d.Season,d.Week,d.Sunday,d.Weekday,d.Psalter,p.ID,p.Precedence,p.Colour,p.Moved,len(d.Celebrations),len(d.Omitted))}}
}
func BenchmarkY(b *testing.B){ all,_:=Builtin(); for b.Loop(){all[General].Year(2024)}}
